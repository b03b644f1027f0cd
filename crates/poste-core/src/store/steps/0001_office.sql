-- The first shape of an office. Never edited after a release: a change is a new step.
-- SQLite only stores here. It never decides: no triggers, no defaults from clocks, no AUTOINCREMENT;
-- every key is given by the log or the fold.

-- Of this file, not of the log: who may read and write it.
CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- Of this machine, not of the log: what its id is made of, its clocks at its last write, and the policy its poste.toml was last
-- known to stand on.
CREATE TABLE machine (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  name TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  boot_ms INTEGER NOT NULL,
  at INTEGER NOT NULL,
  policy_seen INTEGER NOT NULL,
  -- Redactions up to this record are erased from every file of this folder.
  erased_to INTEGER NOT NULL
) STRICT;

CREATE TABLE log (
  position INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  envelope BLOB NOT NULL,
  chain BLOB NOT NULL,
  -- 1: the bytes came like this from the engine that orders the log, and are no envelope.
  malformed INTEGER NOT NULL
) STRICT;

-- What people wrote. The subject has a column of its own so that a listing never reads a body.
-- bytes is NULL when the content is a blob in the folder.
CREATE TABLE content (
  position INTEGER PRIMARY KEY,
  subject TEXT NOT NULL,
  bytes BLOB
) STRICT;

-- Every id ever seen, for ever. `message` is the number the record was given, if it was a message.
CREATE TABLE ids (
  id TEXT PRIMARY KEY,
  position INTEGER NOT NULL,
  fingerprint BLOB NOT NULL,
  message INTEGER
) STRICT, WITHOUT ROWID;

-- Refusals and unknown kinds, on a log that keeps them.
CREATE TABLE outcomes (
  position INTEGER PRIMARY KEY,
  code TEXT NOT NULL,
  reason TEXT NOT NULL
) STRICT;

-- The fold's answers to this machine's own proposals, for a process that waits while another one folds. Only for a log that
-- is ordered elsewhere, and only the newest.
CREATE TABLE answers (
  position INTEGER PRIMARY KEY,
  verdict TEXT NOT NULL
) STRICT;

CREATE TABLE cursor (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  chain BLOB NOT NULL,
  fold_version INTEGER NOT NULL,
  message_last INTEGER NOT NULL,
  delivery_last INTEGER NOT NULL
) STRICT;

CREATE TABLE agents (
  name TEXT PRIMARY KEY,
  kind INTEGER NOT NULL,
  role TEXT,
  worktree TEXT,
  lead TEXT,
  registered_at INTEGER NOT NULL,
  retired_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX agents_role ON agents (role, name) WHERE retired_at IS NULL;

CREATE TABLE capabilities (
  agent TEXT NOT NULL,
  word TEXT NOT NULL,
  PRIMARY KEY (agent, word)
) STRICT, WITHOUT ROWID;
CREATE INDEX capabilities_word ON capabilities (word, agent);

CREATE TABLE messages (
  number INTEGER PRIMARY KEY,
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  sender TEXT NOT NULL,
  label INTEGER NOT NULL,
  type TEXT NOT NULL,
  priority INTEGER NOT NULL,
  urgency INTEGER NOT NULL,
  work INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  retry_delay_ms INTEGER NOT NULL,
  conversation TEXT NOT NULL,
  reply_to INTEGER,
  forward_of INTEGER,
  wants_response INTEGER NOT NULL,
  respond_by INTEGER,
  ready_at INTEGER,
  expires_at INTEGER,
  workflow TEXT,
  step TEXT,
  topic TEXT,
  notice INTEGER,
  about INTEGER,
  hops INTEGER NOT NULL
) STRICT;
CREATE INDEX messages_conversation ON messages (conversation, number);
CREATE INDEX messages_reply_to ON messages (reply_to, number) WHERE reply_to IS NOT NULL;
CREATE INDEX messages_topic ON messages (topic, number) WHERE topic IS NOT NULL;

-- `rank` is 3 − priority, so that the best mail comes first in every index.
CREATE TABLE deliveries (
  number INTEGER PRIMARY KEY,
  message INTEGER NOT NULL,
  address TEXT NOT NULL,
  state INTEGER NOT NULL,
  ready INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  claims INTEGER NOT NULL,
  token INTEGER,
  holder TEXT,
  session TEXT,
  lease_until INTEGER,
  ready_at INTEGER,
  expires_at INTEGER,
  respond_by INTEGER,
  reminded_at INTEGER,
  shown_at INTEGER,
  acked_at INTEGER,
  answer INTEGER,
  answered_at INTEGER,
  ended_at INTEGER,
  ended_by INTEGER,
  reason INTEGER,
  dropped_at INTEGER
) STRICT;
CREATE UNIQUE INDEX deliveries_message ON deliveries (message, address);
-- One range for claim-next, for an inbox page, and for the newest of what has ended.
CREATE INDEX deliveries_inbox ON deliveries (address, state, ready, rank, message);
CREATE INDEX deliveries_held ON deliveries (holder, message) WHERE state = 1;
-- Expected responses, the most urgent first; and deliveries that ended badly, the newest first.
CREATE INDEX deliveries_awaited ON deliveries (respond_by, number)
  WHERE respond_by IS NOT NULL AND answer IS NULL AND state <= 1;
CREATE INDEX deliveries_bad ON deliveries (dropped_at, ended_by, number) WHERE state >= 3;

-- Rings that are owed for mail that can be claimed. A row is for all readers of the address; once a member of a group was
-- shown the mail or rung for it, each other member has a row at its own name. A cache for finding lost rings: every refold
-- makes the same.
CREATE TABLE owed_rings (
  address TEXT NOT NULL,
  delivery INTEGER NOT NULL,
  PRIMARY KEY (address, delivery)
) STRICT, WITHOUT ROWID;
CREATE INDEX owed_rings_delivery ON owed_rings (delivery);

-- The agent and session that a delivery was shown to.
CREATE TABLE shown (
  delivery INTEGER NOT NULL,
  agent TEXT NOT NULL,
  session TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (delivery, agent, session)
) STRICT, WITHOUT ROWID;

-- Everything that happened to a delivery after it was stored: the history behind `track` and `log why`.
CREATE TABLE events (
  message INTEGER NOT NULL,
  position INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  delivery INTEGER NOT NULL,
  event INTEGER NOT NULL,
  at INTEGER NOT NULL,
  agent TEXT NOT NULL,
  session TEXT,
  value INTEGER,
  PRIMARY KEY (message, delivery, position, ordinal)
) STRICT, WITHOUT ROWID;

CREATE INDEX events_position ON events (position, event);

-- What will be due, and when. A pure function of the rows it points to.
CREATE TABLE due (
  at INTEGER NOT NULL,
  what INTEGER NOT NULL,
  subject INTEGER NOT NULL,
  PRIMARY KEY (at, what, subject)
) STRICT, WITHOUT ROWID;

-- Conversations that were closed, with an outcome. A new message opens one again.
CREATE TABLE closed (
  conversation TEXT PRIMARY KEY,
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  agent TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Records whose content was erased, and the record of the redaction.
CREATE TABLE redactions (
  position INTEGER PRIMARY KEY,
  redacted_by INTEGER NOT NULL
) STRICT;
CREATE INDEX redactions_by ON redactions (redacted_by);

-- Archived conversations: their file, and what stays known about each message.
CREATE TABLE archives (
  position INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  file TEXT NOT NULL,
  lines INTEGER NOT NULL,
  digest BLOB NOT NULL
) STRICT;
CREATE TABLE archived_messages (
  number INTEGER PRIMARY KEY,
  position INTEGER NOT NULL,
  conversation TEXT NOT NULL,
  archive INTEGER NOT NULL
) STRICT;
CREATE INDEX archived_conversation ON archived_messages (conversation, number);
CREATE INDEX archived_messages_archive ON archived_messages (archive, number);
CREATE TABLE archived_content (
  position INTEGER PRIMARY KEY,
  archive INTEGER NOT NULL
) STRICT;
CREATE INDEX archived_content_archive ON archived_content (archive);
-- The steps of archived deliveries that their records do not tell by themselves: what a claim won, that a result was
-- late, and what the office ended by itself.
CREATE TABLE archived_events (
  position INTEGER NOT NULL,
  message INTEGER NOT NULL,
  event INTEGER NOT NULL,
  PRIMARY KEY (position, message, event)
) STRICT, WITHOUT ROWID;

CREATE TABLE subscriptions (
  agent TEXT NOT NULL,
  topic TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (agent, topic)
) STRICT, WITHOUT ROWID;
CREATE INDEX subscriptions_topic ON subscriptions (topic, agent);

CREATE TABLE topics (
  name TEXT PRIMARY KEY,
  published INTEGER NOT NULL,
  last_message INTEGER,
  last_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE policies (
  version INTEGER PRIMARY KEY,
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  machine TEXT NOT NULL,
  host TEXT NOT NULL,
  digest BLOB NOT NULL,
  max_attempts INTEGER,
  retry_delay_ms INTEGER,
  lease_ms INTEGER,
  retention_ms INTEGER,
  content_bytes_max INTEGER,
  fan_out_max INTEGER
) STRICT;
CREATE INDEX policies_machine ON policies (machine, version);

-- The office's own types, of the newest policy.
CREATE TABLE types (
  name TEXT PRIMARY KEY,
  priority INTEGER NOT NULL,
  urgency INTEGER NOT NULL,
  work INTEGER NOT NULL,
  response INTEGER NOT NULL,
  max_attempts INTEGER,
  retry_delay_ms INTEGER,
  patience_ms INTEGER,
  default_approve INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Shared contexts. `number` is the record that made one; a lock is a lease, and its row of `due` names that number.
CREATE TABLE contexts (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  schema INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  version INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  updated_by TEXT NOT NULL,
  token INTEGER,
  holder TEXT,
  session TEXT,
  locked_until INTEGER
) STRICT;
CREATE UNIQUE INDEX contexts_name ON contexts (name);
CREATE INDEX contexts_locked ON contexts (holder, number) WHERE holder IS NOT NULL;

-- What each version brought: `text` is 0 for none, 1 for a whole text, 2 for a section at its end.
CREATE TABLE context_versions (
  context INTEGER NOT NULL,
  version INTEGER NOT NULL,
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  agent TEXT NOT NULL,
  text INTEGER NOT NULL,
  data INTEGER NOT NULL,
  added INTEGER NOT NULL,
  removed INTEGER NOT NULL,
  message INTEGER NOT NULL,
  agreement INTEGER,
  PRIMARY KEY (context, version)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX context_versions_position ON context_versions (position);
CREATE INDEX context_versions_whole ON context_versions (context, version) WHERE text = 1;
CREATE INDEX context_versions_data ON context_versions (context, version) WHERE data = 1;
CREATE INDEX context_versions_agreement ON context_versions (agreement, context) WHERE agreement IS NOT NULL;

CREATE TABLE context_contributors (
  context INTEGER NOT NULL,
  agent TEXT NOT NULL,
  versions INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  PRIMARY KEY (context, agent)
) STRICT, WITHOUT ROWID;

-- The newest version each agent has seen.
CREATE TABLE context_reads (
  agent TEXT NOT NULL,
  context INTEGER NOT NULL,
  version INTEGER NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (agent, context)
) STRICT, WITHOUT ROWID;

-- Handoffs. They outlive the archiving of their conversation; their words are in the records they name.
CREATE TABLE handoffs (
  number INTEGER PRIMARY KEY,
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  sender TEXT NOT NULL,
  recipient TEXT NOT NULL,
  checks INTEGER NOT NULL,
  verifies INTEGER NOT NULL,
  state INTEGER NOT NULL,
  overridden INTEGER NOT NULL,
  decision INTEGER,
  decided_at INTEGER,
  decided_by TEXT,
  answer INTEGER
) STRICT;
CREATE INDEX handoffs_sender ON handoffs (sender, number);
CREATE INDEX handoffs_recipient ON handoffs (recipient, number);
CREATE INDEX handoffs_decided_by ON handoffs (decided_by, number) WHERE decided_by IS NOT NULL;
CREATE INDEX handoffs_state ON handoffs (state, number);

-- Approval requests, by the number of their message. They outlive its archiving.
CREATE TABLE approvals (
  number INTEGER PRIMARY KEY,
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  asker TEXT NOT NULL,
  conversation TEXT NOT NULL,
  plan INTEGER NOT NULL,
  choices TEXT NOT NULL,
  fallback TEXT,
  deadline INTEGER,
  state INTEGER NOT NULL,
  choice TEXT,
  decided_by TEXT,
  answer INTEGER,
  ended_at INTEGER,
  ended_by INTEGER
) STRICT;
CREATE INDEX approvals_open ON approvals (conversation, number) WHERE state = 0;
CREATE INDEX approvals_asker ON approvals (asker, state, number);
CREATE INDEX approvals_state ON approvals (state, number);

-- Paths that are held, one row a pattern. `prefix` is what every path of the pattern begins with: patterns can only
-- have a path in common if one's is the beginning of the other's, so only those are compared.
CREATE TABLE reservations (
  number INTEGER PRIMARY KEY,
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  agent TEXT NOT NULL,
  pattern TEXT NOT NULL,
  prefix BLOB NOT NULL,
  shared INTEGER NOT NULL,
  until INTEGER NOT NULL,
  renewed INTEGER
) STRICT;
CREATE UNIQUE INDEX reservations_agent ON reservations (agent, pattern);
CREATE INDEX reservations_prefix ON reservations (prefix, number);

-- Paths that were held, and what ended it.
CREATE TABLE past_reservations (
  number INTEGER PRIMARY KEY,
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  agent TEXT NOT NULL,
  pattern TEXT NOT NULL,
  shared INTEGER NOT NULL,
  until INTEGER NOT NULL,
  renewed INTEGER,
  ended_at INTEGER NOT NULL,
  ended_by INTEGER NOT NULL,
  reason INTEGER NOT NULL
) STRICT;
CREATE INDEX past_reservations_end ON past_reservations (ended_by, number);
CREATE INDEX past_reservations_agent ON past_reservations (agent, ended_by, number);
-- Sessions: one run of an agent, below which other, and with which process it lives and dies. Whether that process
-- still runs is never stored: only the machine it runs on can say so.
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  agent TEXT NOT NULL,
  parent TEXT,
  root TEXT NOT NULL,
  pid INTEGER,
  pid_started_ms INTEGER,
  pid_place TEXT NOT NULL,
  machine TEXT NOT NULL,
  host TEXT NOT NULL,
  program TEXT NOT NULL,
  worktree TEXT,
  questions INTEGER NOT NULL,
  state INTEGER NOT NULL,
  ended_at INTEGER,
  ended_by INTEGER,
  successor TEXT
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX sessions_live ON sessions (agent) WHERE state = 0;
CREATE INDEX sessions_root ON sessions (root, position);
CREATE INDEX sessions_position ON sessions (position);
CREATE INDEX sessions_pid ON sessions (pid) WHERE pid IS NOT NULL;

-- The notes of a session, kept at its root.
CREATE TABLE session_notes (
  root TEXT NOT NULL,
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  session TEXT NOT NULL,
  agent TEXT NOT NULL,
  what INTEGER NOT NULL,
  question INTEGER,
  about TEXT,
  PRIMARY KEY (root, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_notes_question ON session_notes (root, question) WHERE question IS NOT NULL;
-- The parties of a proposal, in the order they were asked, and which have agreed. Kept from the first agreement on.
CREATE TABLE agreements (
  proposal INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  party TEXT NOT NULL,
  agent TEXT,
  position INTEGER,
  at INTEGER,
  message INTEGER,
  PRIMARY KEY (proposal, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX agreements_position ON agreements (position) WHERE message IS NOT NULL;

-- Runs: an agent's program, started by a dispatcher in the session of the same name. Whether its processes live is never
-- stored: only the machine they run on can say so.
CREATE TABLE runs (
  run TEXT PRIMARY KEY,
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  agent TEXT NOT NULL,
  runner TEXT NOT NULL,
  machine TEXT NOT NULL,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  pid_started_ms INTEGER,
  pid_place TEXT NOT NULL,
  hops INTEGER NOT NULL,
  ended_by INTEGER,
  ended_at INTEGER,
  how INTEGER,
  code INTEGER,
  took_ms INTEGER,
  cost_micros INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_position ON runs (position);
CREATE INDEX runs_agent ON runs (agent, at, position);
CREATE INDEX runs_running ON runs (agent, position) WHERE ended_by IS NULL;

CREATE TABLE run_claims (
  run TEXT NOT NULL,
  message INTEGER NOT NULL,
  PRIMARY KEY (run, message)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_claims_message ON run_claims (message, run);

-- Holds: on a delivery, or, as delivery 0, on the agent.
CREATE TABLE run_holds (
  agent TEXT NOT NULL,
  delivery INTEGER NOT NULL,
  why INTEGER NOT NULL,
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  until INTEGER,
  let_go_at INTEGER,
  PRIMARY KEY (agent, delivery)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_holds_delivery ON run_holds (delivery) WHERE delivery > 0;

-- Workflows: which are open, their owner, and the state of each step.
CREATE TABLE workflows (
  number INTEGER PRIMARY KEY,
  label TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  position INTEGER NOT NULL UNIQUE,
  at INTEGER NOT NULL,
  owner TEXT NOT NULL,
  lead TEXT,
  digest BLOB NOT NULL,
  state INTEGER NOT NULL,
  ended_at INTEGER,
  ended_by INTEGER,
  hops INTEGER NOT NULL
) STRICT;
CREATE INDEX workflows_open ON workflows (owner, number) WHERE state = 0;
CREATE INDEX workflows_state ON workflows (state, number);

-- Steps in the order of the definition; others are named by their ordinals.
CREATE TABLE workflow_steps (
  workflow INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  key TEXT NOT NULL,
  needs TEXT NOT NULL,
  again TEXT NOT NULL,
  max_rounds INTEGER NOT NULL,
  instead INTEGER,
  state INTEGER NOT NULL,
  round INTEGER NOT NULL,
  granted INTEGER NOT NULL,
  marked_at INTEGER,
  marked_by INTEGER,
  PRIMARY KEY (workflow, ordinal)
) STRICT, WITHOUT ROWID;

-- The messages of the steps. `part` is 0 for the work itself and 1 for a question about its failure.
CREATE TABLE workflow_mail (
  workflow INTEGER NOT NULL,
  step INTEGER NOT NULL,
  round INTEGER NOT NULL,
  item INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  part INTEGER NOT NULL,
  items INTEGER NOT NULL,
  message INTEGER NOT NULL UNIQUE,
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  deadline INTEGER,
  state INTEGER NOT NULL,
  ended_at INTEGER,
  ended_by INTEGER,
  PRIMARY KEY (workflow, step, round, item, attempt, part)
) STRICT, WITHOUT ROWID;

-- Deliveries of messages that name the numbered step of a workflow they are, for as long as they hold up later steps: until
-- they are done or dropped.
CREATE TABLE numbered_steps (
  workflow TEXT NOT NULL,
  step INTEGER NOT NULL,
  delivery INTEGER NOT NULL UNIQUE,
  PRIMARY KEY (workflow, step, delivery)
) STRICT, WITHOUT ROWID;
CREATE INDEX messages_workflow ON messages (workflow, number) WHERE workflow IS NOT NULL;

-- Rules that notify people of mail: everything up to the cursor was processed, and one process at a time continues.
CREATE TABLE handlers (
  number INTEGER PRIMARY KEY,
  rule TEXT NOT NULL UNIQUE,
  cursor INTEGER NOT NULL,
  token INTEGER,
  holder TEXT,
  until INTEGER
) STRICT;
CREATE INDEX handlers_held ON handlers (holder, number) WHERE holder IS NOT NULL;

-- Messages that a rule could not report after all of its attempts.
CREATE TABLE handler_dead (
  rule TEXT NOT NULL,
  message INTEGER NOT NULL,
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  PRIMARY KEY (rule, message)
) STRICT, WITHOUT ROWID;

-- Senders that were notified that an agent is stopped, since it is.
CREATE TABLE stop_told (
  agent TEXT NOT NULL,
  sender TEXT NOT NULL,
  PRIMARY KEY (agent, sender)
) STRICT, WITHOUT ROWID;
