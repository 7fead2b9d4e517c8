// Split query and schema text into coloured parts. It accepts any text: the server reports the errors.

// The words of both languages. Elsewhere they are names: of a property, such as `$p.order` or `limit: I64`, or of an edge type.
const KEYWORDS = new Set(
  ("query match return having order limit offset where set insert update delete not optional and or in is as null true false " +
    "asc desc distinct contains starts_with like between case when then else end node edge interface implements enum").split(" "),
);
const FUNCTIONS = new Set(
  ("date datetime now count sum avg min max collect coalesce lower upper length trim concat substring year month day years months " +
    "weeks days hours minutes seconds search match_text fuzzy bm25 nearest rrf").split(" "),
);
const NEXT = /\s*(\S?)/y;
const TOKEN = new RegExp(
  [
    "(?<comment>//[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$))",
    '(?<string>"(?:\\\\.|[^"\\\\\\n])*"?)',
    "(?<variable>\\$\\w+)",
    "(?<annotation>@\\w+)",
    "(?<number>\\b\\d+(?:\\.\\d+)?(?:e[+-]?\\d+)?\\b)",
    "(?<word>[A-Za-z_]\\w*)",
    "(?<other>\\s+|[^\\s\\w])",
  ].join("|"),
  "gy",
);

// Return [{ kind, text, start }] that together are the whole text.
export function tokenize(text) {
  const tokens = [];
  TOKEN.lastIndex = 0;
  for (let match = TOKEN.exec(text); match; match = TOKEN.exec(text)) {
    let [kind] = Object.entries(match.groups).find(([, part]) => part !== undefined);
    if (kind === "word" && isKeyword(text, match)) kind = "keyword";
    else if (kind === "word" && /^[A-Z]/.test(match[0])) kind = "type";
    tokens.push({ kind, text: match[0], start: match.index });
  }
  return tokens;
}

function isKeyword(text, { 0: word, index }) {
  NEXT.lastIndex = index + word.length;
  const [, next] = NEXT.exec(text);
  if (FUNCTIONS.has(word)) return next === "(";
  return KEYWORDS.has(word) && next !== ":" && text[index - 1] !== ".";
}

// Return the position in the text of a line and a column of the server, which start at 1 and count code points.
export function positionOf(text, line, column) {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, previous) => sum + previous.length + 1, 0);
  const inLine = [...(lines[line - 1] || "")].slice(0, column - 1).join("").length;
  return Math.min(before + inLine, text.length);
}

// Return the text of the declaration of a type in a schema, or an empty string.
export function declarationOf(text, name) {
  const tokens = tokenize(text);
  const starts = [];
  let depth = 0;
  tokens.forEach((token, index) => {
    if (token.text === "{" || token.text === "(") depth += 1;
    if (token.text === "}" || token.text === ")") depth -= 1;
    if (depth === 0 && ["node", "edge", "interface"].includes(token.text)) starts.push(index);
  });
  const position = starts.findIndex((index) => tokens.slice(index + 1).find((token) => token.kind !== "other")?.text === name);
  if (position < 0) return "";
  const last = starts[position + 1] ?? tokens.length;
  const declaration = tokens.slice(starts[position], last);
  while (declaration.length && ["comment", "other"].includes(declaration.at(-1).kind) && declaration.at(-1).text !== "}" && declaration.at(-1).text !== ")") {
    declaration.pop();
  }
  return declaration.map((token) => token.text).join("");
}
