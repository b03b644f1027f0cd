//! Every limit of an office, by name. Each is checked before the append; what a header tells is checked again in
//! the fold, which never sees content.

/// Content (subject, body, payload, results) above this goes to a blob instead of a row.
pub const CONTENT_INLINE_BYTES_MAX: usize = 64 * 1024;
/// Content above this is refused before anything is written.
pub const CONTENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// One encoded envelope: header fields, never content.
pub const ENVELOPE_BYTES_MAX: usize = 256 * 1024;
/// Nesting of a JSON payload; deeper ones are refused by the parser.
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
/// Names that are looked at in the folders of one handoff.
pub const HANDOFF_NAMES_MAX: usize = 50_000;
/// Things one handoff asks its receiver to check.
pub const HANDOFF_CHECKS_MAX: u32 = 100;
/// Commands one handoff asks its receiver to run.
pub const HANDOFF_VERIFIES_MAX: u32 = 20;
/// One attached or hashed artifact.
pub const ARTIFACT_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;
/// Addresses one message may name.
pub const ADDRESSES_MAX: usize = 256;
/// Deliveries one record may make.
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
/// … and messages, unless one conversation alone has more.
pub const ARCHIVE_MESSAGES_MAX: usize = 10_000;
/// Records for which the answers to a machine's own proposals are kept, on a log that is ordered elsewhere.
pub const ANSWERS_KEPT_RECORDS: u64 = 10_000;
/// How long a publisher waits for its own records to come back, on a log that is ordered elsewhere.
pub const ANSWER_PATIENCE_MS: u64 = 5_000;
/// Records one `redact` may erase.
pub const REDACT_MAX: usize = 1_000;
/// Past publications one `subscribe --from` may bring back.
pub const BACKFILL_MAX: usize = 1_000;
/// Choices one approval may offer.
pub const APPROVAL_CHOICES_MAX: usize = 16;
/// Deliveries one approval may make: each is ended by the record that decides it.
pub const APPROVAL_RECIPIENTS_MAX: usize = 64;
/// Questions one session may number.
pub const SESSION_QUESTIONS_MAX: u32 = 10_000;
/// Capabilities of one agent.
pub const CAPABILITIES_MAX: usize = 64;
/// A path in a header (worktree, artifact).
pub const PATH_BYTES_MAX: usize = 4_096;
/// One pattern of paths.
pub const PATTERN_BYTES_MAX: usize = 1_024;
/// Alternatives the braces of one pattern may make …
pub const PATTERN_ALTERNATIVES_MAX: usize = 64;
/// … so many characters in all of them …
pub const PATTERN_ITEMS_MAX: usize = 4_096;
/// … and how deep braces may stand in braces.
pub const PATTERN_BRACES_DEPTH_MAX: usize = 8;
/// Patterns one `reserve` may take …
pub const RESERVE_MAX: usize = 64;
/// … and those one agent may hold at a time.
pub const RESERVATIONS_MAX: usize = 1_000;
/// Steps of comparing patterns one `reserve` may cost: some tenths of a second.
pub const OVERLAP_STEPS_MAX: u64 = 50_000_000;
/// Types an office may add or change in `poste.toml`.
pub const POLICY_TYPES_MAX: usize = 200;
/// Gates one message may have to pass, and one file may define.
pub const GATES_MAX: usize = 64;
/// Messages one run works on.
pub const RUN_CLAIMS_MAX: usize = 64;
/// Senders of what waits that are told when an agent is stopped; others when they write again.
pub const STOP_TOLD_MAX: usize = 256;
/// Milliseconds, or millionths of a dollar, one run takes: sums of them stay far from every edge.
pub const RUN_NUMBER_MAX: i64 = 1_000_000_000_000;
/// Rules that tell people of mail, ever taken in one office.
pub const HANDLERS_MAX: usize = 1_000;
/// `[[on]]` rules of one file.
pub const ON_RULES_MAX: usize = 100;
/// How long one attempt to tell somebody of a message may take …
pub const HANDLER_TIMEOUT_MS_DEFAULT: i64 = 10 * SECOND_MS;
pub const HANDLER_TIMEOUT_MS_MAX: i64 = 10 * MINUTE_MS;
/// … how often it is tried, and how long the first pause between two attempts is …
pub const HANDLER_ATTEMPTS_DEFAULT: u32 = 8;
pub const HANDLER_ATTEMPTS_MAX: u64 = 100;
pub const HANDLER_BACKOFF_MS_DEFAULT: i64 = SECOND_MS;
/// … and the longest one.
pub const HANDLER_PAUSE_MS_MAX: i64 = 5 * MINUTE_MS;
/// How much of what was just sent a rule tells in a time. Nobody reads more; a rule that causes what it tells would.
pub const HANDLER_PACE_DEFAULT: u32 = 600;
pub const HANDLER_PACE_MAX: u64 = 60_000;
pub const HANDLER_PACE_MS: i64 = MINUTE_MS;
/// The text pattern of a rule, compiled.
pub const TEXT_PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// Attempts to wake somebody that the history of one delivery keeps.
pub const WAKES_MAX: u32 = 64;
/// How long the command of a gate may take.
pub const GATE_TIMEOUT_MS_MIN: i64 = SECOND_MS;
pub const GATE_TIMEOUT_MS_MAX: i64 = HOUR_MS;
pub const GATE_TIMEOUT_MS_DEFAULT: i64 = MINUTE_MS;
/// Words of one command, and bytes of it.
pub const COMMAND_WORDS_MAX: usize = 256;
pub const COMMAND_BYTES_MAX: usize = 16 * 1024;
/// An artifact that is held to a schema.
pub const JSON_ARTIFACT_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The file of a payload schema.
pub const SCHEMA_BYTES_MAX: u64 = 256 * 1024;

/// A caller-made record id.
pub const ID_BYTES_MAX: usize = 128;
/// An agent, role, capability or type name.
pub const NAME_BYTES_MAX: usize = 64;
/// The name of a shared context: with `context.` before it, it is a topic.
pub const CONTEXT_NAME_BYTES_MAX: usize = NAME_BYTES_MAX - "context.".len();
/// A conversation, workflow or step label, or a session.
pub const LABEL_BYTES_MAX: usize = 128;

/// The text of a shared context, whole or a section, and its data.
pub const DOCUMENT_BYTES_MAX: usize = 1024 * 1024;
/// The title of a section is one line.
pub const TITLE_BYTES_MAX: usize = 256;

/// Steps of a workflow, messages a step may be for one list, rounds of a loop, attempts of a step.
pub const WORKFLOW_STEPS_MAX: usize = 200;
pub const WORKFLOW_ITEMS_MAX: u32 = 1_000;
pub const WORKFLOW_ROUNDS_MAX: u32 = 1_000;
pub const WORKFLOW_ATTEMPTS_MAX: u32 = 1_000;
/// The file of a definition, and how long a step may take.
pub const WORKFLOW_BYTES_MAX: usize = 256 * 1024;
pub const STEP_TIME_MS_MIN: i64 = SECOND_MS;
pub const STEP_TIME_MS_MAX: i64 = 30 * DAY_MS;

/// How long a shared context is locked.
pub const CONTEXT_LOCK_MS_MIN: i64 = SECOND_MS;
pub const CONTEXT_LOCK_MS_MAX: i64 = HOUR_MS;

pub const LEASE_MS_MIN: i64 = 1_000;
pub const LEASE_MS_MAX: i64 = 24 * HOUR_MS;
pub const LEASE_MS_DEFAULT: i64 = 10 * MINUTE_MS;
/// A reservation outlives a night, not a week.
pub const RESERVATION_MS_MAX: i64 = 7 * DAY_MS;
pub const RESERVATION_MS_DEFAULT: i64 = HOUR_MS;
/// Attempts before a delivery is dead.
pub const ATTEMPTS_MAX_DEFAULT: u32 = 5;
pub const ATTEMPTS_MAX_MAX: u32 = 1_000;
/// The first retry waits this long, each later one twice as long as the one before …
pub const RETRY_DELAY_MS_DEFAULT: i64 = 10_000;
/// … up to this.
pub const RETRY_DELAY_MS_MAX: i64 = HOUR_MS;
/// How long a type's mail may wait unseen before its sender is told why.
pub const PATIENCE_MS_MIN: i64 = SECOND_MS;
pub const PATIENCE_MS_MAX: i64 = 30 * DAY_MS;
/// How long finished conversations stay in the live tables before `archive` takes them.
pub const RETENTION_MS_DEFAULT: i64 = 72 * HOUR_MS;
/// Furthest `--not-before`, `--expires` and `--respond-by` may reach.
pub const HORIZON_MS_MAX: i64 = 3_660 * DAY_MS;

/// The wall clock may run ahead of the boot clock by this without being called a leap.
pub const CLOCK_LEAP_MS_MIN: i64 = 10 * MINUTE_MS;
/// A larger leap is refused until a person accepts it.
pub const CLOCK_LEAP_MS_MAX: i64 = DAY_MS;

pub const SECOND_MS: i64 = 1_000;
pub const MINUTE_MS: i64 = 60 * SECOND_MS;
pub const HOUR_MS: i64 = 60 * MINUTE_MS;
pub const DAY_MS: i64 = 24 * HOUR_MS;

/// A run that was told no limit is ended after this.
pub const RUN_LIMIT_MS_DEFAULT: i64 = 30 * MINUTE_MS;
/// Between asking a program to end and ending it.
pub const RUN_GRACE_MS_DEFAULT: i64 = 10_000;
pub const RUN_GRACE_MS_MAX: i64 = 10 * MINUTE_MS;
pub const RUN_CONCURRENCY_MAX: u64 = 1_000;
/// Runs one message may come out of, one after the other, before somebody is asked whether it is a loop.
pub const RUN_HOPS_DEFAULT: u32 = 20;
pub const RUN_HOPS_MAX: u64 = 10_000;
/// Starts of one agent in a minute.
pub const RUN_STARTS_DEFAULT: u32 = 60;
pub const RUN_STARTS_MAX: u64 = 1_000_000;
