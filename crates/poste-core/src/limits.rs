//! Every limit of an office, by name. Each is checked before the append. The fold checks again what it can see in a
//! header; it never sees content.

/// Content (subject, body, payload, results) above this is stored in a blob instead of a row.
pub const CONTENT_INLINE_BYTES_MAX: usize = 64 * 1024;
/// Content above this is refused before anything is written.
pub const CONTENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// One encoded envelope: header fields, never content.
pub const ENVELOPE_BYTES_MAX: usize = 256 * 1024;
/// Nesting depth of a JSON payload; the parser refuses deeper ones.
pub const PAYLOAD_DEPTH_MAX: usize = 100;
/// A subject is one line.
pub const SUBJECT_BYTES_MAX: usize = 512;
/// `--meta key=value` pairs of one message.
pub const METADATA_ENTRIES_MAX: usize = 64;
/// `--ref` entries of one message.
pub const REFERENCES_MAX: usize = 64;
/// Artifacts named by one message or result.
pub const ARTIFACTS_MAX: usize = 100;
/// Files of one handoff.
pub const HANDOFF_ARTIFACTS_MAX: usize = 1_000;
/// Names examined in the folders of one handoff.
pub const HANDOFF_NAMES_MAX: usize = 50_000;
/// Checks that one handoff may ask of its receiver.
pub const HANDOFF_CHECKS_MAX: u32 = 100;
/// Commands that one handoff may ask its receiver to run.
pub const HANDOFF_VERIFIES_MAX: u32 = 20;
/// One attached or hashed artifact.
pub const ARTIFACT_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;
/// The beginning of an attached text file in which secrets are looked for.
pub const ARTIFACT_SEARCHED_BYTES_MAX: usize = 1024 * 1024;
/// Addresses one message may name.
pub const ADDRESSES_MAX: usize = 256;
/// Deliveries one record may create.
pub const FAN_OUT_MAX: usize = 10_000;
/// Deliveries one claim may take.
pub const CLAIM_MAX: u32 = 100;
/// Types one claim may ask for.
pub const CLAIM_TYPES_MAX: usize = 100;
/// Messages one `shown` record may mark.
pub const SHOWN_MAX: usize = 1_000;
/// Due items one tick settles.
pub const TICK_ITEMS_MAX: usize = 1_000;
/// Conversations one `archive` record may move …
pub const ARCHIVE_CONVERSATIONS_MAX: usize = 1_000;
/// … and messages, unless a single conversation has more.
pub const ARCHIVE_MESSAGES_MAX: usize = 10_000;
/// Records for which a machine keeps the answers to its own proposals, on a log that is ordered elsewhere.
pub const ANSWERS_KEPT_RECORDS: u64 = 10_000;
/// How long a publisher waits for its own records to come back, on a log that is ordered elsewhere.
pub const ANSWER_PATIENCE_MS: u64 = 5_000;
/// Records one `redact` may erase.
pub const REDACT_MAX: usize = 1_000;
/// Past publications one `subscribe --from` may deliver.
pub const BACKFILL_MAX: usize = 1_000;
/// Choices one approval may offer.
pub const APPROVAL_CHOICES_MAX: usize = 16;
/// Deliveries one approval may create: the record that decides it ends each of them.
pub const APPROVAL_RECIPIENTS_MAX: usize = 64;
/// Questions one session may number.
pub const SESSION_QUESTIONS_MAX: u32 = 10_000;
/// Capabilities of one agent.
pub const CAPABILITIES_MAX: usize = 64;
/// A path in a header (worktree, artifact).
pub const PATH_BYTES_MAX: usize = 4_096;
/// One path pattern.
pub const PATTERN_BYTES_MAX: usize = 1_024;
/// Alternatives that the braces of one pattern may expand to …
pub const PATTERN_ALTERNATIVES_MAX: usize = 64;
/// … the number of characters in all of them …
pub const PATTERN_ITEMS_MAX: usize = 4_096;
/// … and the nesting depth of braces.
pub const PATTERN_BRACES_DEPTH_MAX: usize = 8;
/// Patterns one `reserve` may take …
pub const RESERVE_MAX: usize = 64;
/// … and patterns one agent may hold at a time.
pub const RESERVATIONS_MAX: usize = 1_000;
/// Steps of comparing patterns that one `reserve` may cost: a few tenths of a second.
pub const OVERLAP_STEPS_MAX: u64 = 50_000_000;
/// Types an office may add or change in `poste.toml`.
pub const POLICY_TYPES_MAX: usize = 200;
/// Size of a program in the project that may be trusted, as a copy of it is kept.
pub const PROGRAM_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Gates one message may have to pass, and one file may define.
pub const GATES_MAX: usize = 64;
/// Messages one run works on.
pub const RUN_CLAIMS_MAX: usize = 64;
/// Waiting senders that are notified when an agent is stopped; the others are notified when they write again.
pub const STOP_NOTIFIED_MAX: usize = 256;
/// Milliseconds, or millionths of a dollar, that one run may take. Sums of them stay far from overflow.
pub const RUN_NUMBER_MAX: i64 = 1_000_000_000_000;
/// Notification rules ever taken in one office.
pub const HANDLERS_MAX: usize = 1_000;
/// `[[on]]` rules of one file.
pub const ON_RULES_MAX: usize = 100;
/// Timeout of one attempt to send a notification …
pub const HANDLER_TIMEOUT_MS_DEFAULT: i64 = 10 * SECOND_MS;
pub const HANDLER_TIMEOUT_MS_MAX: i64 = 10 * MINUTE_MS;
/// … how often it is tried, and the first pause between two attempts …
pub const HANDLER_ATTEMPTS_DEFAULT: u32 = 8;
pub const HANDLER_ATTEMPTS_MAX: u64 = 100;
pub const HANDLER_BACKOFF_MS_DEFAULT: i64 = SECOND_MS;
/// … and the longest pause.
pub const HANDLER_PAUSE_MS_MAX: i64 = 5 * MINUTE_MS;
/// Notifications of new mail that one rule sends per period. No one reads more, but a rule that triggers itself would
/// send more.
pub const HANDLER_PACE_DEFAULT: u32 = 600;
pub const HANDLER_PACE_MAX: u64 = 60_000;
pub const HANDLER_PACE_MS: i64 = MINUTE_MS;
/// The compiled text pattern of a rule.
pub const TEXT_PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// Attempts to wake an agent that the history of one delivery keeps.
pub const WAKES_MAX: u32 = 64;
/// How often per minute an agent is woken for mail that no person sent.
pub const WAKES_PER_MINUTE_DEFAULT: u32 = 6;
pub const WAKES_PER_MINUTE_MAX: u64 = 600;
/// Timeout of a gate's command.
pub const GATE_TIMEOUT_MS_MIN: i64 = SECOND_MS;
pub const GATE_TIMEOUT_MS_MAX: i64 = HOUR_MS;
pub const GATE_TIMEOUT_MS_DEFAULT: i64 = MINUTE_MS;
/// Words of one command, and its bytes.
pub const COMMAND_WORDS_MAX: usize = 256;
pub const COMMAND_BYTES_MAX: usize = 16 * 1024;
/// An artifact that is checked against a schema.
pub const JSON_ARTIFACT_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The file of a payload schema.
pub const SCHEMA_BYTES_MAX: u64 = 256 * 1024;

/// A record id made by a caller.
pub const ID_BYTES_MAX: usize = 128;
/// An agent, role, capability or type name.
pub const NAME_BYTES_MAX: usize = 64;
/// The name of a shared context. With the prefix `context.`, it is a topic.
pub const CONTEXT_NAME_BYTES_MAX: usize = NAME_BYTES_MAX - "context.".len();
/// A conversation, workflow or step label, or a session.
pub const LABEL_BYTES_MAX: usize = 128;

/// The text of a shared context, whole or one section, and its data.
pub const DOCUMENT_BYTES_MAX: usize = 1024 * 1024;
/// The title of a section is one line.
pub const TITLE_BYTES_MAX: usize = 256;

/// Steps of a workflow, messages of a step with a list, rounds of a loop, attempts of a step.
pub const WORKFLOW_STEPS_MAX: usize = 200;
pub const WORKFLOW_ITEMS_MAX: u32 = 1_000;
pub const WORKFLOW_ROUNDS_MAX: u32 = 1_000;
pub const WORKFLOW_ATTEMPTS_MAX: u32 = 1_000;
/// The file of a definition, and how long a step may take.
pub const WORKFLOW_BYTES_MAX: usize = 256 * 1024;
pub const STEP_TIME_MS_MIN: i64 = SECOND_MS;
pub const STEP_TIME_MS_MAX: i64 = 30 * DAY_MS;

/// How long a shared context may be locked.
pub const CONTEXT_LOCK_MS_MIN: i64 = SECOND_MS;
pub const CONTEXT_LOCK_MS_MAX: i64 = HOUR_MS;

pub const LEASE_MS_MIN: i64 = 1_000;
pub const LEASE_MS_MAX: i64 = 24 * HOUR_MS;
pub const LEASE_MS_DEFAULT: i64 = 10 * MINUTE_MS;
/// A reservation may last overnight, but not longer than a week.
pub const RESERVATION_MS_MAX: i64 = 7 * DAY_MS;
pub const RESERVATION_MS_DEFAULT: i64 = HOUR_MS;
/// Attempts before a delivery is dead.
pub const ATTEMPTS_MAX_DEFAULT: u32 = 5;
pub const ATTEMPTS_MAX_MAX: u32 = 1_000;
/// The first retry waits this long, each later one twice as long as the one before …
pub const RETRY_DELAY_MS_DEFAULT: i64 = 10_000;
/// … up to this.
pub const RETRY_DELAY_MS_MAX: i64 = HOUR_MS;
/// How long mail of a type may wait unseen before its sender is notified why.
pub const PATIENCE_MS_MIN: i64 = SECOND_MS;
pub const PATIENCE_MS_MAX: i64 = 30 * DAY_MS;
/// How long finished conversations stay in the live tables before `archive` takes them.
pub const RETENTION_MS_DEFAULT: i64 = 72 * HOUR_MS;
/// How far ahead `--not-before`, `--expires` and `--respond-by` may reach.
pub const HORIZON_MS_MAX: i64 = 3_660 * DAY_MS;

/// How far the wall clock may run ahead of the boot clock before it counts as a leap.
pub const CLOCK_LEAP_MS_MIN: i64 = 10 * MINUTE_MS;
/// A larger leap is refused until a person accepts it.
pub const CLOCK_LEAP_MS_MAX: i64 = DAY_MS;

pub const SECOND_MS: i64 = 1_000;
pub const MINUTE_MS: i64 = 60 * SECOND_MS;
pub const HOUR_MS: i64 = 60 * MINUTE_MS;
pub const DAY_MS: i64 = 24 * HOUR_MS;

/// A run without a time limit of its own is ended after this.
pub const RUN_LIMIT_MS_DEFAULT: i64 = 30 * MINUTE_MS;
/// Time between asking a program to end and killing it.
pub const RUN_GRACE_MS_DEFAULT: i64 = 10_000;
pub const RUN_GRACE_MS_MAX: i64 = 10 * MINUTE_MS;
pub const RUN_CONCURRENCY_MAX: u64 = 1_000;
/// Consecutive runs that one message may come out of before a person is asked whether it is a loop.
pub const RUN_HOPS_DEFAULT: u32 = 20;
pub const RUN_HOPS_MAX: u64 = 10_000;
/// Starts of one agent per minute.
pub const RUN_STARTS_DEFAULT: u32 = 60;
pub const RUN_STARTS_MAX: u64 = 1_000_000;
