"""The limits and tuning constants of the system, by name. Units come last in a name.

A limit is public if a user can reach it or choose it; docs/user/limits.md lists every public limit. Users do not need
the tuning constants, which can change in any release. A number that a format fixes, or that only one function uses, is
defined next to that function.
"""

from __future__ import annotations

from typing import Final

# Public limits

SCHEMA_TEXT_BYTES_MAX: Final = 1024 * 1024
SCHEMA_PROBLEMS_MAX: Final = 100
VECTOR_DIMENSIONS_MAX: Final = 65_536
SCHEMA_NAME_LENGTH_MAX: Final = 128
SCHEMA_INHERITED_PARTS_MAX: Final = 100_000
CARDINALITY_MAX: Final = 2**31 - 1
CHECK_PATTERN_LENGTH_MAX: Final = 1_000
CHECK_PATTERN_DEPTH_MAX: Final = 50
CHECK_PATTERN_REPEAT_MAX: Final = 1_000
CHECK_PATTERN_SIZE_MAX: Final = 20_000

QUERY_TEXT_BYTES_MAX: Final = 256 * 1024
QUERY_PROBLEMS_MAX: Final = 100
QUERY_DEPTH_MAX: Final = 60
QUERY_CLAUSES_MAX: Final = 100
QUERY_STATEMENTS_MAX: Final = 1_000
QUERY_STRING_LENGTH_MAX: Final = 100_000
QUERY_NUMBER_LENGTH_MAX: Final = 320
QUERY_NUMBER_EXPONENT_MAX: Final = 400
QUERY_LIST_ITEMS_MAX: Final = 10_000
QUERY_NAME_LENGTH_MAX: Final = 128
QUERY_LIMIT_MAX: Final = 2**63 - 1
PARAMETERS_BYTES_MAX: Final = 64 * 1024 * 1024
DECISIONS_BYTES_MAX: Final = 64 * 1024 * 1024
TRAVERSAL_HOPS_MAX: Final = 100
FUZZY_EDITS_MAX: Final = 2
RRF_K_MAX: Final = 1_000_000
SEARCH_RRF_RANKS: Final = 1_000
SEARCH_EXACT_BYTES: Final = 64 * 1024**2
SEARCH_FILTERED_BYTES: Final = 4 * 1024**2
SEARCH_INDEX_ROWS_MAX: Final = 2_500

ENGINE_MEMORY_BYTES: Final = 2 * 1024**3
ENGINE_SECONDS_MAX: Final = 300.0
ENGINE_CACHE_BYTES: Final = 1024**3
LANCE_METADATA_CACHE_BYTES: Final = 64 * 1024**2
LANCE_INDEX_CACHE_BYTES: Final = 1024**3

SPARK_QUERY_SECONDS_MAX: Final = 24 * 3600.0
SPARK_CONNECT_SECONDS_MAX: Final = 5.0
WARM_SERVER_IDLE_MINUTES: Final = 30
WARM_SERVER_IDLE_MINUTES_MAX: Final = 7 * 24 * 60
WARM_SERVER_START_SECONDS_MAX: Final = 180.0

BRANCH_NAME_BYTES_MAX: Final = 128
COMMIT_NAME_LENGTH_MIN: Final = 4
LEASE_WAIT_SECONDS_MAX: Final = 120.0
STAGING_AGE_SECONDS_MAX: Final = 24 * 3600.0

VIOLATIONS_KEPT_MAX: Final = 100
VIOLATIONS_PER_RULE_MAX: Final = 10
VIOLATION_EXAMPLES: Final = 3
VIOLATION_GROUPS_MAX: Final = 1_000

LOAD_LINE_BYTES_MAX: Final = 64 * 1024 * 1024
CSV_HEADER_BYTES_MAX: Final = 1024 * 1024

EMBED_TEXT_BYTES_MAX: Final = 32 * 1024
EMBED_WAVE_ROWS: Final = 10_000
EMBED_WAVE_BYTES: Final = 64 * 1024 * 1024

CONFLICTS_SHOWN_MAX: Final = 50

MAINTENANCE_CONCURRENCY: Final = 8
DOCTOR_EDGE_ROWS_MAX: Final = 1_000_000
HEALTHY_SMALL_FRAGMENTS_MAX: Final = 32
HEALTHY_FRAGMENT_ROWS_MIN: Final = 100_000
HEALTHY_DELETED_SHARE_MAX: Final = 0.2
COMPACTION_ROWS: Final = 1024 * 1024

CLEANUP_AGE_SECONDS_MIN: Final = 600.0  # longer than any lease, and than any wait for one
CLEANUP_KEEP_WARN_BELOW: Final = 3
CLEANUP_KEEP_RECOMMENDED: Final = 10
ORPHAN_GRACE_SECONDS: Final = 3 * 24 * 3600.0
ORPHAN_GRACE_SECONDS_MIN: Final = 2 * 24 * 3600.0  # beyond STAGING_AGE_SECONDS_MAX

SERVER_BODY_BYTES_MAX: Final = 1024 * 1024
SERVER_LOAD_BYTES_MAX: Final = 32 * 1024 * 1024
SERVER_BODY_SECONDS_MAX: Final = 60.0
SERVER_KEEP_ALIVE_SECONDS: Final = 75
SERVER_CHANGES_PER_ACTOR: Final = 16
SERVER_READ_THREADS_MIN: Final = 8
SERVER_READ_THREADS_MAX: Final = 64
SERVER_WRITE_THREADS: Final = 16
SERVER_THREAD_WAIT_SECONDS: Final = 5.0
SERVER_STREAMS: Final = 8
SERVER_STREAM_WAIT_SECONDS: Final = 0.25
SERVER_STREAM_IDLE_SECONDS_MAX: Final = 300.0
SERVER_QUERY_SECONDS_MAX: Final = 60.0
SERVER_QUERY_MEMORY_BYTES_MIN: Final = 256 * 1024**2
SERVER_RESULT_BYTES_MAX: Final = 256 * 1024**2
SERVER_WAITING_MAX: Final = 256
SERVER_WAIT_SECONDS_MAX: Final = 60.0
SERVER_HEALTH_SECONDS: Final = 60.0

ACTOR_LENGTH_MAX: Final = 128
POLICY_BYTES_MAX: Final = 1024 * 1024
POLICY_RULES_MAX: Final = 1_000
POLICY_ACTORS_MAX: Final = 10_000

CLUSTER_FILE_BYTES_MAX: Final = 1024 * 1024
CLUSTER_FILES_MAX: Final = 1_000
CLUSTER_BYTES_MAX: Final = 16 * 1024 * 1024
CLUSTER_REVISIONS_MAX: Final = 100

# Tuning constants

SCHEMA_SUGGESTION_CANDIDATES_MAX: Final = 1_000
PROBLEM_LINE_LENGTH_MAX: Final = 400
PROBLEM_WORD_LENGTH_MAX: Final = 60

ENGINE_CACHE_COLUMN_PART: Final = 4  # one table version takes at most this part of the cache
ENGINE_CACHE_TABLES_MAX: Final = 256  # each has an open dataset
ENGINE_CACHE_VERSIONS_MAX: Final = 16  # of one table
ENGINE_FRAME_ROWS: Final = 128 * 1024
ENGINE_FRAME_BYTES: Final = 8 * 1024**2
ENGINE_EXPANDED_ROWS_MAX: Final = 2 * 1024**2
ENGINE_REACH_CELLS_MAX: Final = 32 * 1024**2
ENGINE_INDEXED_FRONTIER_MAX: Final = 500
ENGINE_TAKE_ROWS_MAX: Final = 1_000
ENGINE_TOUCHES_MIN: Final = 2
ENGINE_EAGER_ROWS_MAX: Final = 20_000
ENGINE_EAGER_BYTES_MAX: Final = 64 * 1024**2
ENGINE_TIMED_ROWS_MIN: Final = 1_000_000  # a scan of fewer rows is fast enough
ENGINE_TIMED_POLL_SECONDS: Final = 0.1
ENGINE_WORDS_BYTES_MAX: Final = 64 * 1024**2
SEARCH_CANDIDATES_MIN: Final = 200
SEARCH_CANDIDATES_FACTOR: Final = 10  # candidates of a vector index per requested row
SEARCH_CANDIDATES_MAX: Final = 10_000
SEARCH_PROBES: Final = 64  # partitions that an unfiltered search reads
ENGINE_WORDS_FACTOR: Final = 8  # peak memory of splitting text, per byte of text

MANIFEST_FRAGMENTS_MAX: Final = 8
MANIFEST_ROWS_PER_FRAGMENT: Final = 16_384
MANIFEST_WHOLE_READ_ROWS_MAX: Final = 1_000  # a smaller manifest is read without a filter
SEEN_HEADS_MAX: Final = 4_096  # branches whose newest head a process remembers
NEWEST_STATES_MAX: Final = 32  # branches whose newest manifest a process caches
NEWEST_TABLES_MAX: Final = 32  # tables whose newest handle a process caches
NEWEST_TABLE_BYTES_MAX: Final = 8 * 1024**2  # an open handle grows with the fragments of its table
IDENTITY_ATTEMPTS_MAX: Final = 8
PUBLISHER_RETRY_BUDGET: Final = 40
PUBLISHER_BACKOFF_SECONDS_MIN: Final = 0.005
PUBLISHER_BACKOFF_SECONDS_MAX: Final = 0.5

JAVA_PROBE_SECONDS_MAX: Final = 30
SPARK_LOG_BYTES_MAX: Final = 4 * 1024 * 1024
SPARK_POLL_SECONDS: Final = 0.1
PROGRESS_SECONDS: Final = 0.5
SPARK_CANCEL_SECONDS_MAX: Final = 10.0
SPARK_ERROR_BYTES_MAX: Final = 256 * 1024
EXECUTOR_PROBES: Final = 8  # tasks of the job that asks executors for their packages
CLASS_ARCHIVE_STARTS_MIN: Final = 2
CLASS_ARCHIVE_RETRY_SECONDS: Final = 24 * 3600.0
WARM_SERVER_STOP_SECONDS_MAX: Final = 20.0
WARM_SERVER_POLL_SECONDS: Final = 0.5
WARM_SERVER_PORT_ATTEMPTS_MAX: Final = 3

INIT_CONCURRENCY: Final = 8
FAILPOINT_HOLD_SECONDS_MAX: Final = 60.0

COMMIT_NAMES_SHOWN_MAX: Final = 10
LEASE_SECONDS: Final = 30.0
LEASE_GROUP_SECONDS_MAX: Final = 2.0  # the writers of one process share a lease for at most this long
LEASE_POLL_SECONDS_MIN: Final = 0.002
LEASE_POLL_SECONDS_MAX: Final = 0.03
RESTAGE_ATTEMPTS_MAX: Final = 3
FENCE_ATTEMPTS_MAX: Final = 16

VIOLATION_VALUE_LENGTH_MAX: Final = 80
CHECK_THREADS_ROWS_MIN: Final = 100_000
TEXT_HASH_CHUNK_BYTES: Final = 256 * 1024
ULIDS_PER_CALL_MAX: Final = 2**31 // 26 - 1  # the capacity of one Arrow array of text

LOAD_RANGE_BYTES: Final = 32 * 1024 * 1024
LOAD_RANGE_BYTES_MIN: Final = 8 * 1024 * 1024
LOAD_RANGES_MIN: Final = 8
LOAD_BLOCK_BYTES: Final = 8 * 1024 * 1024
LOAD_FRAGMENT_BYTES: Final = 128 * 1024 * 1024
LOAD_PREFIXES_MAX: Final = 512  # groups of lines of one type in a block
LOAD_BLOCK_ROWS_MAX: Final = 65_536
INPUT_PLAN_THREADS: Final = 16
PARQUET_BUFFER_BYTES: Final = 1024 * 1024
PARQUET_FIELD_TEXT_BYTES: Final = 8  # the assumed size of a value as text
LOCAL_RUNNER_BYTES_MAX: Final = 32 * 1024 * 1024
LOCAL_RUNNER_TASKS_MAX: Final = 64
LOCAL_RUNNER_THREADS: Final = 4
LOAD_DRIVER_BYTES_MAX: Final = 512 * 1024 * 1024
LOAD_MERGE_DRIVER_BYTES_MAX: Final = 256 * 1024 * 1024
LOAD_UPSERT_ROWS_MAX: Final = 10_000  # above it a join of Lance may exceed its own memory limit
LOAD_PART_BYTES_MAX: Final = 1024 * 1024
LOAD_COMPRESSION_FACTOR: Final = 8  # the assumed size of text per compressed byte
LOAD_KEY_FILE_BYTES: Final = 32 * 1024 * 1024
LOAD_BUCKET_BYTES: Final = 64 * 1024 * 1024
LOAD_BUCKETS_MAX: Final = 4_096
LOAD_GRAPH_ROWS_PER_TASK: Final = 4_000_000

EXPORT_WHOLE_ROWS_MAX: Final = 4_096  # a table with fewer rows is one part
EXPORT_PART_BYTES: Final = 32 * 1024 * 1024
EXPORT_RUN_PARTS: Final = 2  # a sorted run has the rows of about this many parts
EXPORT_BATCH_BYTES: Final = 4 * 1024 * 1024
EXPORT_BATCH_ROWS_MAX: Final = 16_384
EXPORT_SAMPLE_ROWS: Final = 1_000_000
EXPORT_CUTS: Final = 4_096  # ids of a table at which a part may start
EXPORT_ZONES: Final = 8_192  # slices of a table whose smallest and largest ids are known
EXPORT_ZONE_ROWS_MIN: Final = 1_024
EXPORT_REREAD_MAX: Final = 2.5  # reads per row, on average, above which the rows are sorted first
EXPORT_STREAMED_PARTS: Final = 16  # parts on disk at a time while the target is a stream
EXPORT_COPY_BYTES: Final = 8 * 1024 * 1024

LOOKUP_FILTER_VALUES_MAX: Final = 1_000
SMALL_FRAGMENT_ROWS_MAX: Final = 256  # a lookup remembers the ids of smaller fragments
SMALL_FRAGMENTS_MAX: Final = 2_048

BRANCH_READ_THREADS: Final = 8
ENTITY_ROWS: Final = 65_536  # rows that diff and merge compare at a time
ENTITY_ROWS_WITH_BLOBS: Final = 256
MERGE_ROUNDS_MAX: Final = 8  # a choice for a conflict can cause further conflicts

SCAN_BATCH_BYTES: Final = 8 * 1024 * 1024
SOURCE_PARTITION_ROWS: Final = 500_000

REPAIR_ROWS_PER_PASS: Final = 8_000_000
REPAIR_INSPECTIONS_MAX: Final = 5
REPAIR_INSPECTION_SECONDS: Final = 0.2
COMPACTION_FRAGMENT_BYTES: Final = 1024**3
COMPACTION_DELETED_SHARE: Final = 0.1
COMPACTION_NUMBER_GAP: Final = 4_096  # for fragments that other writers add during the first attempt
COMPACTION_NUMBER_GAP_FACTOR: Final = 16  # each further attempt leaves more numbers to other writers
OPTIMIZE_GROUP_TASKS: Final = 16  # tasks of one commit with partial progress
OPTIMIZE_COMMITS_MAX: Final = 10_000
MANIFEST_COMPACTION_ATTEMPTS_MAX: Final = 20
ADJACENCY_EDGES_MAX: Final = 20_000_000
MOVED_GRAPH_IDS_LEFT_OUT: Final = 1_000_000  # more than the unreadable branches have assigned
SCHEMA_ROWS_PER_TASK: Final = 1_000_000
INDEX_ROWS_PER_TASK: Final = 4_000_000
INDEX_PARTITIONS_MAX: Final = 4_096  # of a segment of a vector index
INDEX_BYTES_PER_TASK: Final = 512 * 1024**2
INDEX_UNCOVERED_PERCENT_MAX: Final = 5  # doctor reports an index above this or above the next number
INDEX_UNCOVERED_ROWS_MAX: Final = 100_000
INDEX_SMALL_SEGMENT_ROWS: Final = 100_000
INDEX_SEGMENTS_MAX: Final = 16
INDEX_DELETED_SHARE: Final = 0.3
MAINTENANCE_ATTEMPTS_MAX: Final = 3
MAINTENANCE_LEASE_ROWS_MAX: Final = 65_536  # what the last attempt rewrites while it holds the branch's lease
MAINTENANCE_LEASE_BYTES_MAX: Final = 64 * 1024 * 1024

CLEANUP_DRIVER_VERSIONS_MAX: Final = 5_000
CLEANUP_DRIVER_FILES_MAX: Final = 100_000
CLEANUP_SNAPSHOTS_PER_TASK: Final = 200
DELETE_BATCH_FILES: Final = 1_000
DELETE_CHUNK_FILES: Final = 32
DELETE_THREADS: Final = 8
REFERENCED_FILES_BATCH_ROWS: Final = 1_000_000

FILE_CHECK_THREADS: Final = 16  # staged files before a write is armed, and files that `doctor` opens
