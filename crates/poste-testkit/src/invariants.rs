//! What must hold for an office at any time.
//!
//! The numbers I1 … I9 are those of the fault model:
//!
//! * For a whole simulation, [`of_simulation`]: I1 nothing acknowledged is lost, I2 nothing appears that was not sent,
//!   I4 there is one order for all and each sender's own order is kept, I6 digests are equal at equal positions.
//! * For one store, [`quick`] and [`full`]: I3 one effect per id, I5 the tables equal the folded log, I7 at most one
//!   live claim per delivery, I8 every delivery is in one named state, I9 the file is sound.
//!
//! The checks describe rows without using the code that wrote them: plain SQL over the tables, and a second, much
//! simpler model of a delivery's life that reads only its history.

use std::collections::BTreeMap;
use std::fmt;

use poste_core::fold::{Refusals, Verdict};
use poste_core::log::{DeliveryNo, Head};
use poste_core::pattern::Effort;
use poste_core::store::Store;
use poste_core::store::table_digest::{digest, digest_by_table, refold};
use poste_core::store::tables::{Event, State, entry_row};
use poste_core::{Digest, Error, Position};

use crate::sim::Simulation;

/// An invariant that does not hold, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub check: &'static str,
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.detail)
    }
}

/// A query that finds violations: one row with one text per offender.
struct Check {
    name: &'static str,
    offenders: &'static str,
}

const fn check(name: &'static str, offenders: &'static str) -> Check {
    Check { name, offenders }
}

/// The numbers in these queries are written out on purpose: renumbering them in the code would break every existing
/// file, and must fail here.
///
/// * States: 0 pending, 1 claimed, 2 done, 3 failed, 4 dead, 5 expired, 6 returned.
/// * Events: 1 claimed, 5 acked, 12 retried, 14 late, 18 reminded, 19 dropped.
/// * Kinds of records: 20 send, 22 claim, 24 done, 25 fail, 50 to 52 a version of a context, 57 an agreement, 60
///   handoff.create, 61 accept, 62 reject, 63 withdraw, 81 an approval's answer.
/// * Due: 0 lease, 1 ready, 2 expiry, 3 response, 4 the lock of a context, 5 a reservation, 6 an approval's deadline, 7
///   the time limit of a step, 8 the lease of a rule.
/// * Reasons: up to 3 an end made by a recipient, 9 stopped by gates, 10 defaulted, 11 withdrawn, 12 settled, 13
///   unanswered, 14 cancelled with its workflow, 15 timed out.
/// * Approvals: 0 open, 1 answered, 2 defaulted.
/// * Sessions: 0 live, 2 taken over. Their notes: 2 a question, 3 an answer.
const CHECKS: &[Check] = &[
    // I3: one effect per id.
    check(
        "I3 every id has one row, at its first record",
        "SELECT ids.id FROM ids
         LEFT JOIN (SELECT json_extract(CAST(envelope AS TEXT), '$.id') AS id, min(position) AS position
                    FROM log WHERE malformed = 0 AND position NOT IN (SELECT position FROM outcomes WHERE code = 'reserved_id')
                    GROUP BY 1) AS first USING (id)
         WHERE first.position IS NOT ids.position
         UNION ALL
         SELECT json_extract(CAST(envelope AS TEXT), '$.id') AS id FROM log
         WHERE malformed = 0 AND id NOT IN (SELECT id FROM ids)
           AND position NOT IN (SELECT position FROM outcomes WHERE code = 'reserved_id')",
    ),
    check(
        "I3 a record makes at most one message of its own",
        "SELECT 'record ' || position FROM messages WHERE notice IS NULL GROUP BY position HAVING count(*) > 1",
    ),
    check(
        "I3 an id knows the message it made",
        "SELECT 'message ' || number FROM messages WHERE notice IS NULL
         AND NOT EXISTS (SELECT 1 FROM ids WHERE ids.message = number AND ids.position = messages.position)
         UNION ALL
         SELECT id FROM ids WHERE message IS NOT NULL AND message NOT IN (SELECT number FROM messages)
           AND message NOT IN (SELECT number FROM archived_messages)",
    ),
    check(
        "I3 repeated and refused records have no effect",
        "SELECT 'record ' || position FROM (
           SELECT position FROM messages UNION SELECT position FROM events UNION SELECT position FROM policies
           UNION SELECT token FROM deliveries UNION SELECT ended_by FROM deliveries
           UNION SELECT position FROM closed UNION SELECT position FROM archives
           UNION SELECT redacted_by FROM redactions UNION SELECT position FROM archived_messages
           UNION SELECT position FROM approvals UNION SELECT ended_by FROM approvals
           UNION SELECT position FROM handoffs UNION SELECT decision FROM handoffs
           UNION SELECT position FROM context_versions UNION SELECT token FROM contexts
           UNION SELECT position FROM sessions UNION SELECT ended_by FROM sessions
           UNION SELECT position FROM session_notes UNION SELECT position FROM agreements
           UNION SELECT position FROM workflows UNION SELECT ended_by FROM workflows
           UNION SELECT marked_by FROM workflow_steps
           UNION SELECT position FROM workflow_mail UNION SELECT ended_by FROM workflow_mail)
         WHERE position IS NOT NULL
           AND (position NOT IN (SELECT position FROM ids) OR position IN (SELECT position FROM outcomes))",
    ),
    // I7: at most one live claim per delivery.
    check(
        "I7 claimed means holder, lease and token",
        "SELECT 'delivery ' || number FROM deliveries
         WHERE state = 1 AND (holder IS NULL OR lease_until IS NULL OR token IS NULL OR claims = 0)",
    ),
    check(
        "I7 nothing else has a lease",
        "SELECT 'delivery ' || number FROM deliveries
         WHERE (state <> 1 AND lease_until IS NOT NULL) OR (state = 0 AND (holder IS NOT NULL OR session IS NOT NULL))",
    ),
    // An ack ends mail that nobody holds: its holder is the agent that acked it, and its token is from an older claim
    // (reason 1).
    check(
        "I7 a token is the record of a claim by the holder",
        "SELECT 'delivery ' || number FROM deliveries
         LEFT JOIN log ON position = token
         WHERE token IS NOT NULL AND (position IS NULL
           OR json_extract(CAST(envelope AS TEXT), '$.kind') NOT IN (20, 22, 24, 25, 57, 61, 62, 81, 100)
           OR (state = 1 AND json_extract(CAST(envelope AS TEXT), '$.kind') NOT IN (22, 100))
           OR (holder IS NOT NULL AND reason IS NOT 1 AND json_extract(CAST(envelope AS TEXT), '$.actor') <> holder))",
    ),
    check(
        "I7 every claim is in the history, the token is the last",
        "SELECT 'delivery ' || number FROM deliveries d
         WHERE claims <> (SELECT count(*) FROM events e WHERE e.delivery = d.number AND e.event = 1)
            OR token IS NOT (SELECT max(position) FROM events e WHERE e.delivery = d.number AND e.event = 1)",
    ),
    check(
        "I7 a retired agent holds nothing and awaits nothing",
        "SELECT 'delivery ' || number FROM deliveries
         JOIN agents ON name = address OR (name = holder AND state = 1)
         WHERE retired_at IS NOT NULL AND state <= 1
         UNION ALL
         SELECT agent FROM subscriptions
         WHERE agent NOT IN (SELECT name FROM agents WHERE retired_at IS NULL)",
    ),
    // I8: every delivery is in one named state, with an age and a reason.
    check("I8 states have names", "SELECT 'delivery ' || number FROM deliveries WHERE state NOT BETWEEN 0 AND 6"),
    check(
        "I8 a delivery has a message and its rank",
        "SELECT 'delivery ' || d.number FROM deliveries d LEFT JOIN messages m ON m.number = d.message
         WHERE m.number IS NULL OR d.rank <> 3 - m.priority",
    ),
    check(
        "I8 an end has a time, a record and a reason",
        "SELECT 'delivery ' || number FROM deliveries
         WHERE (state >= 2) <> (ended_at IS NOT NULL)
            OR (ended_at IS NULL) <> (ended_by IS NULL) OR (ended_at IS NULL) <> (reason IS NULL)",
    ),
    check(
        "I8 the reason fits the state",
        "SELECT 'delivery ' || number FROM deliveries
         WHERE state >= 2 AND state <> CASE WHEN reason <= 3 OR reason IN (10, 12) THEN 2
           WHEN reason IN (8, 9, 11, 14) THEN 6 WHEN reason IN (13, 15) THEN 5 ELSE reason - 1 END",
    ),
    check(
        "I8 a delivery stopped by its gates has their result, and gates run under a claim",
        "SELECT 'delivery ' || number FROM deliveries d WHERE reason = 9 AND NOT EXISTS
           (SELECT 1 FROM events e WHERE e.message = d.message AND e.delivery = d.number
              AND e.position = d.ended_by AND e.event = 21 AND e.value = d.token AND e.agent = d.holder)
         UNION ALL
         SELECT 'gates at record ' || e.position FROM events e WHERE e.event IN (20, 21) AND NOT EXISTS
           (SELECT 1 FROM events c WHERE c.message = e.message AND c.delivery = e.delivery
              AND c.position = e.value AND c.event = 1 AND c.agent = e.agent)",
    ),
    check(
        "I8 it ended when its record says",
        "SELECT 'delivery ' || number FROM deliveries LEFT JOIN log ON position = ended_by
         WHERE ended_by IS NOT NULL AND log.at IS NOT ended_at",
    ),
    check(
        "I8 pending and not ready means ready later",
        "SELECT 'delivery ' || number FROM deliveries
         WHERE (state = 0 AND ready = 0) <> (ready_at IS NOT NULL)
            OR (state = 1 AND ready = 0) OR (state >= 2 AND ready = 1)",
    ),
    check(
        "I8 what is due is what deliveries imply",
        "SELECT 'missing ' || what || ' of ' || subject FROM (
           SELECT lease_until AS at, 0 AS what, number AS subject FROM deliveries
             WHERE state = 1 AND lease_until IS NOT NULL
           UNION ALL SELECT ready_at, 1, number FROM deliveries WHERE state = 0 AND ready = 0 AND ready_at IS NOT NULL
           UNION ALL SELECT expires_at, 2, number FROM deliveries WHERE state = 0 AND expires_at IS NOT NULL
           UNION ALL SELECT respond_by, 3, number FROM deliveries
             WHERE state <= 1 AND answer IS NULL AND reminded_at IS NULL AND respond_by IS NOT NULL
           UNION ALL SELECT deadline, 6, number FROM approvals WHERE state = 0 AND deadline IS NOT NULL
           UNION ALL SELECT locked_until, 4, number FROM contexts WHERE locked_until IS NOT NULL
           UNION ALL SELECT until, 5, number FROM reservations
           UNION ALL SELECT deadline, 7, message FROM workflow_mail WHERE state = 0 AND deadline IS NOT NULL
           UNION ALL SELECT until, 8, number FROM handlers WHERE until IS NOT NULL
           EXCEPT SELECT at, what, subject FROM due)
         UNION ALL
         SELECT 'too much: ' || what || ' of ' || subject FROM (
           SELECT at, what, subject FROM due
           EXCEPT SELECT lease_until, 0, number FROM deliveries WHERE state = 1
           EXCEPT SELECT ready_at, 1, number FROM deliveries WHERE state = 0 AND ready = 0
           EXCEPT SELECT expires_at, 2, number FROM deliveries WHERE state = 0
           EXCEPT SELECT until, 5, number FROM reservations
           EXCEPT SELECT deadline, 7, message FROM workflow_mail WHERE state = 0
           EXCEPT SELECT until, 8, number FROM handlers WHERE until IS NOT NULL
           EXCEPT SELECT respond_by, 3, number FROM deliveries
             WHERE state <= 1 AND answer IS NULL AND reminded_at IS NULL
           EXCEPT SELECT deadline, 6, number FROM approvals WHERE state = 0
           EXCEPT SELECT locked_until, 4, number FROM contexts WHERE locked_until IS NOT NULL)",
    ),
    check(
        "I8 attempts stay within their limit",
        "SELECT 'delivery ' || d.number FROM deliveries d JOIN messages m ON m.number = d.message
         WHERE attempts > max_attempts OR (state <= 1 AND attempts >= max_attempts)
            OR (state = 4 AND attempts <> max_attempts)",
    ),
    check(
        "I8 a shown delivery was shown to an agent",
        "SELECT 'delivery ' || number FROM deliveries d
         WHERE shown_at IS NOT (SELECT min(at) FROM shown WHERE delivery = d.number)
         UNION ALL SELECT 'shown ' || delivery FROM shown WHERE delivery NOT IN (SELECT number FROM deliveries)",
    ),
    check(
        "I8 acked agrees with the history",
        "SELECT 'delivery ' || number FROM deliveries d
         WHERE acked_at IS NOT (SELECT max(at) FROM events e WHERE e.delivery = d.number AND e.event = 5)",
    ),
    check(
        "I8 an answer is a reply",
        "SELECT 'delivery ' || d.number FROM deliveries d LEFT JOIN messages m ON m.number = d.answer
         WHERE (d.answer IS NULL) <> (d.answered_at IS NULL)
            OR (d.answer IS NOT NULL AND d.answer NOT IN (SELECT number FROM archived_messages)
                AND (m.reply_to IS NOT d.message OR m.at IS NOT d.answered_at))",
    ),
    check(
        "I8 a notice is the office's and about something",
        "SELECT 'message ' || number FROM messages
         WHERE (notice IS NOT NULL) <> (sender = 'poste') OR (notice IS NOT NULL) <> (about IS NOT NULL)
            OR (about IS NOT NULL AND about NOT IN (SELECT number FROM deliveries))",
    ),
    check(
        "I8 topics count what was published",
        "SELECT name FROM topics t
         WHERE NOT EXISTS (SELECT 1 FROM archives) -- what was published may be archived; its topic is then in a file
           AND (published <> (SELECT count(*) FROM messages WHERE topic = t.name)
                OR last_message IS NOT (SELECT max(number) FROM messages WHERE topic = t.name))
         UNION ALL SELECT topic FROM messages WHERE topic IS NOT NULL AND topic NOT IN (SELECT name FROM topics)",
    ),
    // I9: the numbers have no gaps, and the rows refer to each other.
    check(
        "I9 message numbers are 1, 2, 3 …",
        "WITH known AS (SELECT number FROM messages UNION ALL SELECT number FROM archived_messages)
         SELECT 'the last is ' || message_last FROM cursor
         WHERE message_last <> (SELECT count(*) FROM known) OR message_last <> (SELECT coalesce(max(number), 0) FROM known)",
    ),
    check(
        "I9 delivery numbers are 1, 2, 3 …",
        "SELECT 'the last is ' || delivery_last FROM cursor
         WHERE delivery_last < (SELECT coalesce(max(number), 0) FROM deliveries)
            OR (delivery_last <> (SELECT count(*) FROM deliveries) AND NOT EXISTS (SELECT 1 FROM archives))",
    ),
    check(
        "I9 positions are 1, 2, 3 … up to the cursor",
        "SELECT 'the cursor is at ' || position FROM cursor
         WHERE position <> (SELECT count(*) FROM log) OR position <> (SELECT coalesce(max(position), 0) FROM log)
         UNION ALL SELECT 'there is no cursor' WHERE NOT EXISTS (SELECT 1 FROM cursor) AND EXISTS (SELECT 1 FROM log)",
    ),
    check(
        "I9 the cursor is the last record",
        "SELECT 'record ' || cursor.position FROM cursor LEFT JOIN log USING (position)
         WHERE log.at IS NOT cursor.at OR log.chain IS NOT cursor.chain",
    ),
    check(
        "I9 time never goes back",
        "SELECT 'record ' || position FROM (SELECT position, at, lag(at) OVER (ORDER BY position) AS before FROM log)
         WHERE at < before",
    ),
    check(
        "I9 messages are numbered in log order",
        "SELECT 'message ' || number FROM
           (SELECT number, position, lag(position) OVER (ORDER BY number) AS before FROM messages)
         WHERE position < before
         UNION ALL
         SELECT 'message ' || number FROM messages m LEFT JOIN log USING (position) WHERE log.at IS NOT m.at",
    ),
    check(
        "I9 events belong to a record and a delivery",
        "SELECT 'event ' || e.message || '/' || e.position || '/' || e.ordinal FROM events e
         LEFT JOIN log USING (position) LEFT JOIN deliveries d ON d.number = e.delivery
         WHERE log.at IS NOT e.at OR d.message IS NOT e.message",
    ),
    check(
        "I9 outcomes and content belong to a record",
        "SELECT 'record ' || position FROM outcomes WHERE position NOT IN (SELECT position FROM log)
         UNION ALL SELECT 'record ' || position FROM content WHERE position NOT IN (SELECT position FROM log)",
    ),
    check(
        "I9 a refused or repeated record has no content",
        "SELECT 'record ' || position FROM content JOIN outcomes USING (position) WHERE code <> 'unknown_kind'",
    ),
    // Workflows: 0 open. Their steps: 2 done, 3 skipped, 4 failed. Their messages: 0 open, 1 done, 2 failed; part 0 is
    // work.
    check(
        "I8 a workflow has ended or has an active owner",
        "SELECT label FROM workflows LEFT JOIN agents a ON a.name = owner
         WHERE (state = 0) <> (ended_at IS NULL) OR (ended_at IS NULL) <> (ended_by IS NULL)
            OR (state = 0 AND (a.name IS NULL OR a.retired_at IS NOT NULL))
            OR label <> workflows.name || '-' || number",
    ),
    check(
        "I8 a step is done when all of its messages are, and open ones are of its round",
        "SELECT 'step ' || s.workflow || '/' || s.key FROM workflow_steps s
         WHERE s.state = 2 AND (SELECT count(*) FROM workflow_mail m WHERE m.workflow = s.workflow AND m.step = s.ordinal
                                  AND m.round = s.round AND m.part = 0 AND m.state = 1)
             <> (SELECT max(items) FROM workflow_mail m WHERE m.workflow = s.workflow AND m.step = s.ordinal
                                  AND m.round = s.round)
         UNION ALL
         SELECT 'step ' || s.workflow || '/' || s.key FROM workflow_steps s JOIN workflow_mail m
           ON m.workflow = s.workflow AND m.step = s.ordinal
         WHERE m.round > s.round OR (m.state = 0 AND (s.state > 1 OR m.round < s.round))
            OR (m.state = 0 AND (SELECT state FROM workflows w WHERE w.number = s.workflow) <> 0)",
    ),
    check(
        "I8 a step's message is what its delivery says, and one attempt follows the failure of another",
        "SELECT 'message ' || m.message FROM workflow_mail m JOIN deliveries d USING (message)
         WHERE m.state <> CASE WHEN d.state <= 1 THEN 0 WHEN d.state = 2 AND (m.part = 1 OR NOT EXISTS
                (SELECT 1 FROM approvals a WHERE a.number = m.message AND a.choices <> a.choice
                   AND a.choices NOT LIKE a.choice || ' %')) THEN 1 ELSE 2 END
            OR m.ended_at IS NOT d.ended_at OR m.ended_by IS NOT d.ended_by
         UNION ALL
         SELECT 'message ' || message FROM workflow_mail m WHERE part = 0 AND attempt > 1 AND NOT EXISTS
           (SELECT 1 FROM workflow_mail b WHERE b.workflow = m.workflow AND b.step = m.step AND b.round = m.round
              AND b.item = m.item AND b.part = 0 AND b.attempt = m.attempt - 1 AND b.state = 2)
         UNION ALL
         SELECT 'message ' || message FROM workflow_mail WHERE message NOT IN (SELECT number FROM messages)
           AND message NOT IN (SELECT number FROM archived_messages)",
    ),
    check(
        "I8 a numbered step holds up others until it is done or dropped",
        "SELECT 'delivery ' || d.number FROM deliveries d JOIN messages m ON m.number = d.message
         WHERE (m.workflow IS NOT NULL AND m.notice IS NULL AND m.work AND m.step NOT GLOB '*[^0-9]*'
             AND m.workflow NOT IN (SELECT label FROM workflows) AND d.state <> 2 AND d.dropped_at IS NULL)
           <> EXISTS (SELECT 1 FROM numbered_steps n WHERE n.delivery = d.number)
         UNION ALL
         SELECT 'delivery ' || delivery FROM numbered_steps WHERE delivery NOT IN (SELECT number FROM deliveries)",
    ),
    // Handoffs: 0 pending, 1 accepted, 2 rejected, 3 withdrawn, and from 4 on the end of their delivery.
    check(
        "I8 a handoff is decided by its record, and by no other",
        "SELECT 'handoff ' || number FROM handoffs h LEFT JOIN log d ON d.position = h.decision
         WHERE (state BETWEEN 1 AND 3) <> (decision IS NOT NULL)
            OR (decision IS NULL) <> (decided_at IS NULL) OR (decision IS NULL) <> (decided_by IS NULL)
            OR (state IN (1, 2)) <> (answer IS NOT NULL) OR (overridden AND state <> 1)
            OR (decision IS NOT NULL AND (d.at IS NOT decided_at
              OR json_extract(CAST(d.envelope AS TEXT), '$.kind') <> 60 + state
              OR json_extract(CAST(d.envelope AS TEXT), '$.actor') <> decided_by))",
    ),
    check(
        "I8 a handoff is what its delivery says",
        "SELECT 'handoff ' || h.number FROM handoffs h JOIN deliveries d ON d.message = h.number
         WHERE d.state <> CASE h.state WHEN 0 THEN d.state WHEN 1 THEN 2 WHEN 2 THEN 2 WHEN 3 THEN 6 ELSE h.state - 1 END
            OR (h.state = 0 AND d.state > 1) OR (d.reason IS 11) <> (h.state = 3)
            OR (h.state IN (1, 2) AND (d.holder IS NOT h.decided_by OR d.reason IS NOT 2))",
    ),
    check(
        "I8 every handoff has one message, and only it answers",
        "SELECT 'handoff ' || h.number FROM handoffs h
         LEFT JOIN messages m ON m.number = h.number LEFT JOIN archived_messages a ON a.number = h.number
         WHERE coalesce(m.position, a.position) IS NOT h.position
            OR (m.number IS NOT NULL AND (m.sender <> h.sender OR NOT m.work OR m.type <> 'handoff_request'
              OR 1 <> (SELECT count(*) FROM deliveries d WHERE d.message = m.number AND d.address = h.recipient)))
         UNION ALL
         SELECT 'handoff ' || h.number FROM handoffs h JOIN deliveries d ON d.message = h.number
         WHERE d.answer IS NOT NULL AND d.answer IS NOT h.answer",
    ),
    check(
        "I8 reminded and dropped agree with the history",
        "SELECT 'delivery ' || number FROM deliveries d
         WHERE reminded_at IS NOT (SELECT max(at) FROM events e WHERE e.delivery = d.number AND e.event = 18)
            OR (reminded_at IS NOT NULL AND respond_by IS NULL)
            OR (dropped_at IS NOT NULL AND (state < 3
              OR NOT EXISTS (SELECT 1 FROM events e WHERE e.delivery = d.number AND e.event = 19)))",
    ),
    check(
        "I8 a reminder goes to its sender and one lead at most",
        "SELECT 'delivery ' || about FROM messages WHERE notice = 5 GROUP BY about HAVING count(*) > 2",
    ),
    check(
        "I8 what is archived is nowhere else and in an archive",
        "SELECT 'message ' || number FROM archived_messages
         WHERE number IN (SELECT number FROM messages) OR number IN (SELECT message FROM deliveries)
            OR number IN (SELECT message FROM events) OR archive NOT IN (SELECT position FROM archives)
            OR position >= archive
         UNION ALL SELECT 'content ' || position FROM archived_content
         WHERE (position IN (SELECT position FROM content) AND position NOT IN (SELECT position FROM context_versions))
            OR archive NOT IN (SELECT position FROM archives)
         UNION ALL SELECT 'event ' || position FROM archived_events
         WHERE message NOT IN (SELECT number FROM archived_messages) OR event NOT IN (1, 4, 6, 9, 10, 11, 14)
           OR (event = 6 AND 2 <> (SELECT json_extract(CAST(envelope AS TEXT), '$.kind') FROM log
                                   WHERE log.position = archived_events.position))",
    ),
    check(
        "I8 an archive has only what happened before it was written",
        "SELECT 'archive ' || a.position FROM archives a JOIN log USING (position)
         JOIN archived_messages m ON m.archive = a.position
         LEFT JOIN archived_events e ON e.message = m.number
         WHERE max(m.position, coalesce(e.position, 0))
           > json_extract(CAST(log.envelope AS TEXT), '$.header.as_of')",
    ),
    check(
        "I8 nothing was sent or tried in a conversation since it was closed",
        "SELECT c.conversation FROM closed c WHERE c.conversation NOT IN (SELECT conversation FROM messages)
           AND c.conversation NOT IN (SELECT conversation FROM archived_messages)
         UNION ALL SELECT c.conversation FROM closed c JOIN messages m USING (conversation)
         WHERE (m.notice IS NULL AND m.position > c.position)
            OR EXISTS (SELECT 1 FROM events e WHERE e.message = m.number AND e.event = 12 AND e.position > c.position)
         UNION ALL SELECT c.conversation FROM closed c LEFT JOIN log USING (position) WHERE log.at IS NOT c.at",
    ),
    check(
        "I8 redacted content is erased",
        "SELECT 'record ' || position FROM redactions
         WHERE position IN (SELECT position FROM content) OR position NOT IN (SELECT position FROM log)
            OR redacted_by <= position",
    ),
    check(
        "I8 a question is decided once, by an answer or its default",
        "SELECT 'approval ' || number FROM approvals
         WHERE (state = 0) <> (ended_by IS NULL) OR (ended_by IS NULL) <> (ended_at IS NULL)
            OR (state IN (1, 2)) <> (choice IS NOT NULL) OR (state = 1) <> (answer IS NOT NULL)
            OR (state = 1) <> (decided_by IS NOT NULL) OR (state = 2 AND choice IS NOT fallback)
            OR (choice IS NOT NULL AND instr(' ' || choices || ' ', ' ' || choice || ' ') = 0)
            OR (number NOT IN (SELECT number FROM messages) AND number NOT IN (SELECT number FROM archived_messages))",
    ),
    check(
        "I8 a decided question is not pending",
        "SELECT 'delivery ' || d.number FROM deliveries d JOIN approvals a ON a.number = d.message
         WHERE a.state <> 0 AND d.state <= 1
         UNION ALL SELECT 'delivery ' || d.number FROM deliveries d JOIN approvals a ON a.number = d.message
         WHERE a.state = 0 AND d.state = 2
         UNION ALL SELECT 'approval ' || a.number FROM approvals a JOIN agents ON name = asker
         WHERE a.state = 0 AND retired_at IS NOT NULL",
    ),
    check(
        "I8 a session is live or ended, and a live one has an active agent",
        "SELECT id FROM sessions
         WHERE (state = 0) <> (ended_by IS NULL) OR (ended_by IS NULL) <> (ended_at IS NULL)
            OR (state = 2) <> (successor IS NOT NULL)
         UNION ALL SELECT id FROM sessions JOIN agents ON name = agent WHERE state = 0 AND retired_at IS NOT NULL",
    ),
    check(
        "I9 sessions hang below their root, and notes at it",
        "SELECT s.id FROM sessions s LEFT JOIN sessions p ON p.id = s.parent
         WHERE (s.parent IS NULL) <> (s.root = s.id OR (s.state = 2 AND s.parent IS NULL))
            OR (s.parent IS NOT NULL AND p.root IS NOT s.root)
         UNION ALL SELECT 'note ' || n.position FROM session_notes n LEFT JOIN sessions s ON s.id = n.root
         WHERE s.root IS NOT n.root OR (n.question IS NOT NULL) <> (n.what IN (2, 3))
         UNION ALL SELECT id FROM sessions s
         WHERE questions <> (SELECT count(*) FROM session_notes WHERE root = s.id AND what = 2)",
    ),
    check(
        "I8 a run is one record of its agent, and ended by a later one",
        "SELECT run FROM runs r LEFT JOIN log USING (position)
         WHERE log.at IS NOT r.at OR json_extract(CAST(envelope AS TEXT), '$.actor') IS NOT r.agent
            OR json_extract(CAST(envelope AS TEXT), '$.kind') <> 100
            OR (ended_by IS NULL) <> (how IS NULL) OR (ended_by IS NULL) <> (ended_at IS NULL) OR ended_by <= r.position
            OR (code IS NOT NULL) <> (how IS NOT NULL AND how IN (0, 1))",
    ),
    check(
        "I8 the messages of a run were claimed by its record",
        "SELECT c.run FROM run_claims c LEFT JOIN runs USING (run)
         WHERE runs.run IS NULL
            OR (NOT EXISTS (SELECT 1 FROM events e WHERE e.message = c.message AND e.position = runs.position AND e.event = 1)
                AND c.message NOT IN (SELECT number FROM archived_messages))
         UNION ALL SELECT 'delivery ' || d.number FROM deliveries d JOIN runs ON runs.position = d.token
         WHERE d.state = 1 AND (d.session IS NOT runs.run
            OR NOT EXISTS (SELECT 1 FROM run_claims c WHERE c.run = runs.run AND c.message = d.message))",
    ),
    check(
        "I9 holds are on pending deliveries of active agents, or on agents",
        "SELECT h.agent FROM run_holds h LEFT JOIN deliveries d ON d.number = h.delivery
         WHERE h.agent NOT IN (SELECT name FROM agents)
            OR (h.delivery > 0 AND h.agent NOT IN (SELECT name FROM agents WHERE retired_at IS NULL))
            OR (h.delivery > 0 AND d.state IS NOT 0)",
    ),
    check(
        "I9 senders were notified only about stopped agents",
        "SELECT t.agent FROM stop_told t LEFT JOIN run_holds h ON h.agent = t.agent AND h.delivery = 0
         WHERE h.why IS NOT 5 OR t.sender NOT IN (SELECT name FROM agents) OR t.sender = t.agent",
    ),
    check(
        "I9 what agents have belongs to an agent",
        "SELECT agent FROM capabilities WHERE agent NOT IN (SELECT name FROM agents)
         UNION ALL SELECT 'delivery ' || number FROM deliveries
           WHERE address NOT LIKE '%:%' AND address NOT IN (SELECT name FROM agents)",
    ),
    check(
        "I7 a locked context has an active holder and every field of a lock",
        "SELECT name FROM contexts
         WHERE (token IS NULL) <> (holder IS NULL) OR (token IS NULL) <> (locked_until IS NULL)
            OR (session IS NOT NULL AND holder IS NULL)
            OR (holder IS NOT NULL AND holder NOT IN (SELECT name FROM agents WHERE retired_at IS NULL))",
    ),
    check(
        "I8 a version is one record of its writer, and one message",
        "SELECT 'version ' || v.context || '/' || v.version FROM context_versions v LEFT JOIN log USING (position)
         WHERE log.at IS NOT v.at OR json_extract(CAST(envelope AS TEXT), '$.actor') IS NOT v.agent
            OR json_extract(CAST(envelope AS TEXT), '$.kind') NOT IN (50, 51, 52)
            OR v.position IS NOT coalesce((SELECT position FROM messages WHERE number = v.message),
                                          (SELECT position FROM archived_messages WHERE number = v.message))",
    ),
    check(
        "I8 an agreement is a record of its party, and a stored one was agreed",
        "SELECT 'proposal ' || a.proposal || ' ' || a.party FROM agreements a LEFT JOIN log USING (position)
         WHERE (a.agent IS NULL) <> (a.position IS NULL) OR (a.agent IS NULL) <> (a.at IS NULL)
            OR (a.position IS NOT NULL AND (log.at IS NOT a.at
                OR json_extract(CAST(envelope AS TEXT), '$.actor') IS NOT a.agent
                OR (a.message IS NOT NULL AND json_extract(CAST(envelope AS TEXT), '$.header.message') IS NOT a.proposal)))
         UNION ALL SELECT 'version ' || v.context || '/' || v.version FROM context_versions v
         WHERE v.agreement IS NOT NULL AND (v.agreement NOT IN (SELECT proposal FROM agreements)
            OR EXISTS (SELECT 1 FROM agreements a WHERE a.proposal = v.agreement
                       AND (a.position IS NULL OR a.position > v.position)))",
    ),
    check(
        "I8 the version that an agent has seen exists",
        "SELECT r.agent FROM context_reads r LEFT JOIN contexts c ON c.number = r.context
         WHERE c.number IS NULL OR r.version NOT BETWEEN 1 AND c.version
            OR r.agent NOT IN (SELECT name FROM agents)",
    ),
    check(
        "I9 versions of a context are 1, 2, 3 …",
        "SELECT c.name FROM contexts c LEFT JOIN context_versions v ON v.context = c.number
         GROUP BY c.number
         HAVING c.version <> count(v.version) OR c.version <> max(v.version) OR min(v.version) <> 1
            OR c.number <> min(v.position)
            OR c.updated_at IS NOT (SELECT at FROM context_versions WHERE context = c.number AND version = c.version)
         UNION ALL SELECT 'version of ' || context FROM context_versions
           WHERE context NOT IN (SELECT number FROM contexts)",
    ),
    check(
        "I9 contributors are those who wrote versions",
        "SELECT context || ' ' || agent FROM (
           SELECT context, agent, count(*) AS versions, max(at) AS last_at FROM context_versions GROUP BY 1, 2
           EXCEPT SELECT context, agent, versions, last_at FROM context_contributors)
         UNION ALL SELECT context || ' ' || agent FROM (
           SELECT context, agent, versions, last_at FROM context_contributors
           EXCEPT SELECT context, agent, count(*), max(at) FROM context_versions GROUP BY 1, 2)",
    ),
    check(
        "I9 holders of paths are active, and numbers are unique",
        "SELECT 'reservation ' || number FROM reservations
           WHERE agent NOT IN (SELECT name FROM agents WHERE retired_at IS NULL)
             OR number IN (SELECT number FROM past_reservations)",
    ),
    check(
        "I9 a reservation ended when its record says",
        "SELECT 'reservation ' || number FROM past_reservations p LEFT JOIN log ON log.position = ended_by
         WHERE log.at IS NOT ended_at OR p.position >= ended_by OR (reason = 1 AND until > ended_at)",
    ),
    check(
        "I7 a rule is held by an active agent, by the record that took it",
        "SELECT 'rule ' || rule FROM handlers h LEFT JOIN log ON position = token
         WHERE (token IS NULL) <> (holder IS NULL) OR (token IS NULL) <> (until IS NULL)
            OR (token IS NOT NULL AND (position IS NULL
              OR json_extract(CAST(envelope AS TEXT), '$.kind') <> 120
              OR json_extract(CAST(envelope AS TEXT), '$.header.rule') <> rule
              OR json_extract(CAST(envelope AS TEXT), '$.actor') <> holder
              OR holder NOT IN (SELECT name FROM agents WHERE retired_at IS NULL)))",
    ),
    check(
        "I9 rules are not ahead of the log, and wait for existing messages",
        "SELECT 'rule ' || rule FROM handlers WHERE cursor > (SELECT max(position) FROM log)
         UNION ALL
         SELECT 'rule ' || rule || ' message ' || message FROM handler_dead
         WHERE rule NOT IN (SELECT rule FROM handlers)
            OR (message NOT IN (SELECT number FROM messages)
                AND message NOT IN (SELECT number FROM archived_messages))",
    ),
    check(
        "I9 policy versions are 1, 2, 3 …",
        "SELECT 'the last is ' || max(version) FROM policies
         HAVING count(*) > 0 AND (max(version) <> count(*) OR min(version) <> 1)",
    ),
];

const DROPPED_KEEPS_NO_OUTCOMES: &str = "I3 a log that drops refusals has none";
const APART: &str = "I9 an exclusive reservation overlaps no other";
const HISTORY: &str = "I7 the history leads to the state";
const REFOLD: &str = "I5 tables are the folded log";
const CHAIN: &str = "I9 the chain holds";
const INTEGRITY: &str = "I9 SQLite finds the file sound";

/// The names of everything that [`full`] checks, so that a test can show that each of them can fail.
pub fn names() -> Vec<&'static str> {
    let more = [DROPPED_KEEPS_NO_OUTCOMES, APART, HISTORY, REFOLD, CHAIN, INTEGRITY];
    CHECKS.iter().map(|check| check.name).chain(more).collect()
}

/// What one pass over the tables can find. Cheap on a small office.
pub fn quick(store: &Store) -> Result<Vec<Violation>, Error> {
    let mut violations = Vec::new();
    for check in CHECKS {
        violations.extend(offenders(store, check.name, check.offenders)?);
    }
    if store.refusals()? == Refusals::Dropped {
        violations.extend(offenders(store, DROPPED_KEEPS_NO_OUTCOMES, "SELECT 'record ' || position FROM outcomes")?);
    }
    violations.extend(held_twice(store)?.into_iter().map(|detail| Violation { check: APART, detail }));
    Ok(violations)
}

/// [`quick`], and what needs the whole log: the chain, the history of every delivery, the refold.
pub fn full(store: &Store) -> Result<Vec<Violation>, Error> {
    let mut violations = quick(store)?;
    let wrong = |check, detail| Violation { check, detail };
    let integrity: String = store.conn().query_row("PRAGMA integrity_check(20)", [], |row| row.get(0))?;
    if integrity != "ok" {
        violations.push(wrong(INTEGRITY, integrity));
    }
    violations.extend(broken_chain(store)?.map(|position| wrong(CHAIN, format!("record {position}"))));
    violations.extend(impossible_histories(store)?.into_iter().map(|detail| wrong(HISTORY, detail)));
    match refold(store, |_| ()) {
        Ok(fresh) => {
            violations.extend(differences(store, &fresh)?.into_iter().map(|table| wrong(REFOLD, table)));
        }
        Err(error @ (Error::Damaged(_) | Error::DatabaseDamaged(_) | Error::UnknownKind { .. })) => {
            violations.push(wrong(REFOLD, error.to_string()));
        }
        Err(error) => return Err(error),
    }
    Ok(violations)
}

fn offenders(store: &Store, check: &'static str, sql: &str) -> Result<Vec<Violation>, Error> {
    let mut statement = store.conn().prepare_cached(sql)?;
    let found = statement.query_map([], |row| Ok(Violation { check, detail: row.get(0)? }))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Every overlap between reservations of two agents, unless both are shared. Uses no index and no prefix: compares all
/// pairs.
fn held_twice(store: &Store) -> Result<Vec<String>, Error> {
    let held = store.tables()?.reservations()?;
    let mut found = Vec::new();
    for (index, one) in held.iter().enumerate() {
        for other in &held[index + 1..] {
            let is_apart = one.agent == other.agent || (one.shared && other.shared);
            if !is_apart && one.pattern.overlaps(&other.pattern, &mut Effort::new(u64::MAX)) {
                found.push(format!("{} of {} and {} of {}", one.pattern, one.agent, other.pattern, other.agent));
            }
        }
    }
    Ok(found)
}

/// The tables on which two stores differ.
pub fn differences(one: &Store, other: &Store) -> Result<Vec<String>, Error> {
    if digest(one.conn())? == digest(other.conn())? {
        return Ok(Vec::new());
    }
    let (ones, others) = (digest_by_table(one.conn())?, digest_by_table(other.conn())?);
    Ok(ones.iter().zip(&others).filter(|(one, other)| one != other).map(|((table, _), _)| table.clone()).collect())
}

fn broken_chain(store: &Store) -> Result<Option<Position>, Error> {
    let mut statement =
        store.conn().prepare("SELECT position, at, envelope, malformed, chain FROM log ORDER BY position")?;
    let mut rows = statement.query([])?;
    let mut chain = Head::default().chain;
    while let Some(row) = rows.next()? {
        let entry = entry_row(row)?;
        chain = entry.chain(&chain);
        if chain != Digest::from_bytes(row.get(4)?) {
            return Ok(Some(entry.position()));
        }
    }
    Ok(None)
}

/// A delivery according to its history alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Life {
    state: State,
    attempts: u32,
}

impl Life {
    const STORED: Self = Self { state: State::Pending, attempts: 0 };

    /// The result of one event; `None` if it cannot happen in this state.
    fn after(self, event: Event) -> Option<Self> {
        use State::{Claimed, Dead, Done, Expired, Failed, Pending, Returned};
        let to = |state| Some(Self { state, ..self });
        match (self.state, event) {
            // Marks do not change the state.
            (_, Event::Shown | Event::Answered | Event::Late | Event::RunEnded) => Some(self),
            (Pending | Claimed, Event::Acked | Event::Reminded | Event::WakeRequested | Event::WakeFailed)
            | (Pending, Event::Ready | Event::Delivered | Event::Held) => Some(self),
            (Failed | Dead | Expired | Returned, Event::Dropped) => Some(self),
            (Pending, Event::Claimed) => to(Claimed),
            (
                Claimed,
                Event::Extended | Event::LeaseMoved | Event::GatePassed | Event::GateFailed | Event::RunStarted,
            ) => Some(self),
            (Claimed, Event::Released) => to(Pending),
            (Claimed, Event::LeaseExpired | Event::AttemptFailed) => {
                Some(Self { state: Pending, attempts: self.attempts + 1 })
            }
            // Only an ack, or the decision of an approval, ends an unclaimed delivery.
            (Pending | Claimed, Event::Done) => to(Done),
            (Claimed, Event::Failed) => to(Failed),
            (Pending, Event::Dead) if self.attempts > 0 => to(Dead),
            // The deadline of an approval also ends a claimed delivery.
            (Pending | Claimed, Event::Expired) => to(Expired),
            // A retiring recipient has given up its claims first; closing a conversation takes them away.
            (Pending | Claimed, Event::Returned) => to(Returned),
            (Failed | Dead | Expired | Returned, Event::Retried) => Some(Self::STORED),
            _ => None,
        }
    }
}

/// Reads plain numbers, because a damaged table must be reported here, not cause an error.
fn impossible_histories(store: &Store) -> Result<Vec<String>, Error> {
    let mut wrong = Vec::new();
    let mut lives: BTreeMap<DeliveryNo, Life> = BTreeMap::new();
    let mut statement =
        store.conn().prepare("SELECT delivery, event, position FROM events ORDER BY position, ordinal")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (delivery, number, position): (DeliveryNo, u8, Position) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let life = lives.entry(delivery).or_insert(Life::STORED);
        let event = Event::ALL.iter().copied().find(|event| event.number() == number);
        match event.and_then(|event| life.after(event)) {
            Some(after) => *life = after,
            None => wrong.push(format!(
                "delivery {delivery}: {} at record {position} while {}",
                event.map_or("something unknown", Event::word),
                life.state
            )),
        }
    }
    let mut statement = store.conn().prepare("SELECT number, state, attempts FROM deliveries")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (number, state, attempts): (DeliveryNo, u8, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let told = lives.get(&number).copied().unwrap_or(Life::STORED);
        if (state, attempts) != (told.state.number(), told.attempts) {
            wrong.push(format!("delivery {number}: state {state}, {attempts} attempts; its history says {told:?}"));
        }
    }
    Ok(wrong)
}

/// I1, I2, I4 and I6 for a simulation that has healed.
pub fn of_simulation(simulation: &Simulation) -> Result<Vec<Violation>, Error> {
    let mut violations = Vec::new();
    nothing_acknowledged_is_lost(simulation, &mut violations)?;
    nothing_appears_unsent(simulation, &mut violations);
    each_senders_order_is_kept(simulation, &mut violations);
    all_replicas_agree(simulation, &mut violations)?;
    Ok(violations)
}

fn nothing_acknowledged_is_lost(simulation: &Simulation, violations: &mut Vec<Violation>) -> Result<(), Error> {
    let records = simulation.sequencer.records();
    let healed = simulation.replicas[0].store().tables()?;
    for acknowledged in &simulation.acknowledged {
        let (outcome, proposal) = (&acknowledged.outcome, &acknowledged.proposal);
        let mut lost = |check, detail: String| {
            violations.push(Violation {
                check,
                detail: format!("{} {}: {detail}", proposal.id, proposal.intent.kind().name),
            });
        };
        let sealed = poste_core::log::Sealed::seal(proposal, simulation.replicas[0].machine()?)?;
        let fingerprint = sealed.envelope.fingerprint();
        let same = |record: &&poste_core::log::Record| {
            record.sealed.envelope.id == proposal.id && record.sealed.envelope.fingerprint() == fingerprint
        };
        if records.iter().find(same).is_none() {
            lost("I1 what was acknowledged is in the log", "it is not there".to_owned());
            continue;
        }
        let Some(position) = outcome.position else {
            lost("I1 an answer names its position", format!("{:?} names none", outcome.verdict));
            continue;
        };
        if !records.iter().any(|record| record.position == position && same(&record)) {
            lost("I1 an answer names its position", format!("it is not at {position}"));
        }
        // Folding the log later must reach the verdict that the caller was given.
        let kept = healed.refusal(position)?.map(|refused| refused.code);
        let told = match &outcome.verdict {
            Verdict::Accepted(_) => None,
            Verdict::Rejected(rejection) => Some(rejection.code.word().to_owned()),
        };
        if kept != told {
            lost("I4 the kept verdict is the one that the caller saw", format!("told {told:?}, kept {kept:?}"));
        }
    }
    Ok(())
}

fn nothing_appears_unsent(simulation: &Simulation, violations: &mut Vec<Violation>) {
    for record in simulation.sequencer.records() {
        if !simulation.sequencer.was_published(&record.sealed) {
            let detail = format!("record {} was never sent", record.position);
            violations.push(Violation { check: "I2 nothing appears that was not sent", detail });
        }
    }
}

/// If a caller had the answer to one proposal before it first sent the next, the log has them in that order.
fn each_senders_order_is_kept(simulation: &Simulation, violations: &mut Vec<Violation>) {
    let mut first_position: BTreeMap<String, Position> = BTreeMap::new();
    for record in simulation.sequencer.records() {
        first_position.entry(record.sealed.envelope.id.to_string()).or_insert(record.position);
    }
    let position_of = |index: usize| first_position.get(simulation.acknowledged[index].proposal.id.as_str());
    for (later, acknowledged) in simulation.acknowledged.iter().enumerate() {
        let earlier = (0..later).rev().find(|earlier| {
            let earlier = &simulation.acknowledged[*earlier];
            earlier.replica == acknowledged.replica && earlier.answered_try < acknowledged.sent_try
        });
        let Some(earlier) = earlier else { continue };
        if position_of(earlier) >= position_of(later) {
            let before = &simulation.acknowledged[earlier].proposal.id;
            let detail = format!("{before} was answered before {} was sent", acknowledged.proposal.id);
            violations.push(Violation { check: "I4 each sender's order is kept", detail });
        }
    }
}

fn all_replicas_agree(simulation: &Simulation, violations: &mut Vec<Violation>) -> Result<(), Error> {
    let first = simulation.replicas[0].store();
    for (number, office) in simulation.replicas.iter().enumerate() {
        let position = office.head()?.position;
        if position != simulation.sequencer.last() {
            let detail = format!("replica {number} is at {position}");
            violations.push(Violation { check: "I6 healed replicas are at the end", detail });
        }
        for table in differences(first, office.store())? {
            let detail = format!("replica {number} has another {table} than replica 0");
            violations.push(Violation { check: "I6 equal position, equal digest", detail });
        }
    }
    Ok(())
}
