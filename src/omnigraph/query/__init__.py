"""`.gq` text to syntax tree to typed plan, and what can be said about a query without running it.

The way through this room: `parse_queries` reads a text, `check_queries` finds everything wrong with it for a catalog
and gives each query a plan as the text says it, `rewrite_plan` turns that into one that can be run, `coerce_params` and
`bind_plan` put values into it. `explain_plan` shows a plan, `lint_queries` looks at whole files, `query_shape` tells
what a query takes and gives, `print_queries` writes a tree back. No module does I/O, and lark comes with the first
text.
"""

from omnigraph.query.bind import bind_plan
from omnigraph.query.check import CheckedQuery, CheckOptions, check_queries
from omnigraph.query.codes import LintCode, QueryCode
from omnigraph.query.explain import ExplainedStep, StepFigures, explain_plan, explain_steps, numbered_steps
from omnigraph.query.facts import NO_FACTS, IndexFact, PlanFacts, TableFacts
from omnigraph.query.fields import Field
from omnigraph.query.lint import LintReport, lint_queries
from omnigraph.query.parameters import ParameterValues, coerce_params
from omnigraph.query.parser import parse_queries
from omnigraph.query.plan import MutationPlan, QueryPlan, ReadPlan, Relation
from omnigraph.query.printer import print_queries
from omnigraph.query.rewrite import RULES, rewrite_plan
from omnigraph.query.shapes import ColumnShape, QueryShape, query_shape
from omnigraph.query.syntax import Query, QueryFile

__all__ = [
    "NO_FACTS",
    "RULES",
    "CheckOptions",
    "CheckedQuery",
    "ColumnShape",
    "ExplainedStep",
    "Field",
    "IndexFact",
    "LintCode",
    "LintReport",
    "MutationPlan",
    "ParameterValues",
    "PlanFacts",
    "Query",
    "QueryCode",
    "QueryFile",
    "QueryPlan",
    "QueryShape",
    "ReadPlan",
    "Relation",
    "StepFigures",
    "TableFacts",
    "bind_plan",
    "check_queries",
    "coerce_params",
    "explain_plan",
    "explain_steps",
    "lint_queries",
    "numbered_steps",
    "parse_queries",
    "print_queries",
    "query_shape",
    "rewrite_plan",
]
