//! Random histories: what a busy, careless and sometimes hostile set of agents would propose next.
//!
//! A generator looks at the tables a caller would look at (those of one replica, which may be old) and remembers
//! what it proposed and was told before. So most of what it proposes could be accepted, and what is refused is
//! refused for a reason worth testing: a lost lease, somebody else's mail, a name that is gone.

use poste_core::log::{
    Ack, Artifact, ArtifactState, Barrier, Body, Claim, Clock, Content, Done, Ends, EndsHow, Extend, Fail, Intent,
    Policy, PolicyType, Proposal, Register, Release, Retire, Retry, Send, Settings, Shown, Subscribe, Tick,
    TopicPattern, Unsubscribe,
};
use poste_core::store::Store;
use poste_core::store::tables::{Agent, State};
use poste_core::text::{Name, RecordId, Session, Topic, TypeName, Word};
use poste_core::time::When;
use poste_core::vocabulary::{AgentKind, BUILT_IN, Priority, Urgency};
use poste_core::{Address, Error, MessageNo, Position, Timestamp};
use poste_core::{fold, limits};

use crate::rng::Rng;

/// Everybody who may register, as what.
const CAST: &[(&str, AgentKind, Option<&str>, &[&str])] = &[
    ("ann", AgentKind::Human, Some("lead"), &[]),
    ("bob", AgentKind::Agent, Some("coder"), &["rust", "go"]),
    ("cy", AgentKind::Agent, Some("coder"), &["rust"]),
    ("dot", AgentKind::Agent, Some("reviewer"), &["go"]),
    ("eve", AgentKind::Human, None, &[]),
    ("flo", AgentKind::Agent, Some("reviewer"), &["rust", "sql"]),
];
/// Follows the grammar of names and is never registered.
const STRANGER: &str = "ghost";
const ROLES: &[&str] = &["coder", "reviewer", "lead", "nobody"];
const ABILITIES: &[&str] = &["rust", "go", "sql", "cobol"];
const TOPICS: &[&str] = &["builds", "TaskCompleted"];

/// With fewer active agents than this, somebody registers first: mail needs people.
const ACTIVE_MIN: usize = 3;
const REMEMBERED_MAX: usize = 60;

/// How a clock moves before the next proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeStep {
    None,
    Passes(i64),
    /// The wall clock is set, forwards or backwards, and no time passes.
    WallStep(i64),
    Reboot(i64),
}

/// What one delivery looks like to a caller.
#[derive(Debug, Clone)]
struct Seen {
    message: MessageNo,
    address: Address,
    state: State,
    ready: bool,
    token: Option<Position>,
    holder: Option<Name>,
    session: Option<Session>,
    sender: String,
}

/// What a caller knows of an office before it proposes.
#[derive(Debug)]
struct Sight {
    active: Vec<Agent>,
    retired: Vec<Agent>,
    seen: Vec<Seen>,
    message_last: u64,
    head: Position,
    policy_version: u64,
    now: Timestamp,
}

impl Sight {
    fn of(store: &Store, now: Timestamp) -> Result<Self, Error> {
        let tables = store.tables()?;
        let (active, retired) = tables.agents()?.into_iter().partition(Agent::is_active);
        Ok(Self {
            active,
            retired,
            seen: newest_deliveries(store)?,
            message_last: tables.cursor.message_last.0,
            head: tables.cursor.head.position,
            policy_version: tables.policy()?.version,
            now,
        })
    }

    fn in_state(&self, wanted: impl Fn(&Seen) -> bool) -> Vec<&Seen> {
        self.seen.iter().filter(|seen| wanted(seen)).collect()
    }

    /// Active agents that may take a delivery.
    fn takers(&self, seen: &Seen) -> Vec<&Agent> {
        let excluded = |agent: &Agent| seen.address.is_group() && agent.name.as_str() == seen.sender;
        self.active.iter().filter(|agent| agent.addresses().contains(&seen.address) && !excluded(agent)).collect()
    }
}

/// The newest open deliveries and the newest ended ones; old mail is left to ticks and to chance.
fn newest_deliveries(store: &Store) -> Result<Vec<Seen>, Error> {
    const EACH: &str = "SELECT d.message, d.address, d.state, d.ready, d.token, d.holder, d.session, m.sender
         FROM deliveries d JOIN messages m ON m.number = d.message";
    let sql = format!(
        "SELECT * FROM ({EACH} WHERE d.state <= 1 ORDER BY d.number DESC LIMIT 30)
         UNION ALL SELECT * FROM ({EACH} WHERE d.state > 1 ORDER BY d.number DESC LIMIT 15)"
    );
    Ok(store
        .conn()
        .prepare_cached(&sql)?
        .query_map([], |row| {
            Ok(Seen {
                message: row.get(0)?,
                address: row.get(1)?,
                state: row.get(2)?,
                ready: row.get(3)?,
                token: row.get(4)?,
                holder: row.get(5)?,
                session: row.get(6)?,
                sender: row.get(7)?,
            })
        })?
        .collect::<Result<_, _>>()?)
}

/// A claim somebody won once, whether or not it still stands.
#[derive(Debug, Clone)]
struct WonClaim {
    actor: Name,
    session: Option<Session>,
    message: MessageNo,
    token: Position,
}

/// A proposal without an id and a time.
#[derive(Debug)]
struct Draft {
    actor: Name,
    session: Option<Session>,
    intent: Intent,
    content: Option<Content>,
}

#[derive(Debug)]
pub struct Generator {
    rng: Rng,
    ids_made: u64,
    proposed: Vec<Proposal>,
    won: Vec<WonClaim>,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Send,
    Reply,
    Forward,
    ClaimNumber,
    ClaimNext,
    Finish,
    Ack,
    Shown,
    Retry,
    Membership,
    Subscription,
    Policy,
    OfficeOnly,
    SameIdAgain,
    Hostile,
}

const ACTS: &[(u32, Act)] = &[
    (22, Act::Send),
    (8, Act::Reply),
    (3, Act::Forward),
    (14, Act::ClaimNumber),
    (6, Act::ClaimNext),
    (18, Act::Finish),
    (4, Act::Ack),
    (5, Act::Shown),
    (4, Act::Retry),
    (4, Act::Membership),
    (5, Act::Subscription),
    (2, Act::Policy),
    (1, Act::OfficeOnly),
    (5, Act::SameIdAgain),
    (4, Act::Hostile),
];

impl Generator {
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed ^ 0x6869_7374_6f72_7900), ids_made: 0, proposed: Vec::new(), won: Vec::new() }
    }

    /// How the clock moves before the next proposal. Small steps mostly, so that leases are lost one at a time.
    pub fn time_step(&mut self) -> TimeStep {
        let rng = &mut self.rng;
        match rng.below(1_000) {
            0..400 => TimeStep::None,
            400..700 => TimeStep::Passes(rng.between(1, 2_000)),
            700..860 => TimeStep::Passes(rng.between(2_000, 30_000)),
            860..945 => TimeStep::Passes(rng.between(30_000, 15 * limits::MINUTE_MS)),
            945..970 => TimeStep::Passes(rng.between(limits::HOUR_MS, 3 * limits::DAY_MS)),
            970..985 => TimeStep::WallStep(rng.between(limits::MINUTE_MS, 30 * limits::HOUR_MS)),
            985..995 => TimeStep::WallStep(-rng.between(1, 5 * limits::HOUR_MS)),
            _ => TimeStep::Reboot(rng.between(0, 2 * limits::DAY_MS)),
        }
    }

    /// The next proposal of somebody who sees `store`.
    pub fn next(&mut self, store: &Store, now: Timestamp) -> Result<Proposal, Error> {
        let sight = Sight::of(store, now)?;
        let proposal = self.draft_proposal(&sight);
        self.proposed.push(proposal.clone());
        if self.proposed.len() > REMEMBERED_MAX {
            self.proposed.remove(0);
        }
        Ok(proposal)
    }

    /// Remembers the tokens an answer gave, for later use and misuse.
    pub fn learn(&mut self, proposal: &Proposal, outcome: &fold::Outcome) {
        let fold::Verdict::Accepted(fold::Effect::Claimed(claimed)) = &outcome.verdict else { return };
        for item in &claimed.items {
            self.won.push(WonClaim {
                actor: proposal.actor.clone(),
                session: proposal.session.clone(),
                message: item.number,
                token: claimed.token,
            });
        }
        if self.won.len() > REMEMBERED_MAX {
            self.won.drain(..self.won.len() - REMEMBERED_MAX);
        }
    }

    fn draft_proposal(&mut self, sight: &Sight) -> Proposal {
        let act = self.rng.weighted(ACTS);
        let draft = match act {
            _ if sight.active.len() < ACTIVE_MIN => self.register(),
            Act::SameIdAgain => match self.same_id_again(sight) {
                Some(proposal) => return proposal,
                None => self.send(sight),
            },
            // What there is nothing to do for becomes a send: it makes something to do.
            Act::Reply => self.reply(sight).unwrap_or_else(|| self.send(sight)),
            Act::Forward => self.forward(sight).unwrap_or_else(|| self.send(sight)),
            Act::ClaimNumber => self.claim_number(sight).unwrap_or_else(|| self.send(sight)),
            Act::Finish => self.finish(sight).unwrap_or_else(|| self.send(sight)),
            Act::Ack => self.ack(sight).unwrap_or_else(|| self.send(sight)),
            Act::Shown => self.shown(sight).unwrap_or_else(|| self.send(sight)),
            Act::Retry => self.retry(sight).unwrap_or_else(|| self.send(sight)),
            Act::ClaimNext => self.claim_next(sight),
            Act::Send => self.send(sight),
            Act::Membership => self.membership(sight),
            Act::Subscription => self.subscription(sight),
            Act::Policy => self.policy(sight),
            Act::OfficeOnly => self.office_only(sight),
            Act::Hostile => self.hostile(sight),
        };
        Proposal {
            id: self.fresh_id(),
            actor: draft.actor,
            session: draft.session,
            sent_at: Timestamp::from_ms(sight.now.ms() + self.rng.between(-5_000, 5_000)),
            intent: draft.intent,
            content: draft.content,
        }
    }

    fn fresh_id(&mut self) -> RecordId {
        self.ids_made += 1;
        format!("h-{}", self.ids_made).parse().expect("an id")
    }

    fn somebody(&mut self, sight: &Sight) -> Name {
        match self.rng.pick_any(&sight.active) {
            Some(agent) => agent.name.clone(),
            None => name(STRANGER),
        }
    }

    /// One of an agent's two sessions, or none.
    fn session(&mut self, actor: &Name) -> Option<Session> {
        self.rng.weighted(&[(50, None), (35, Some(1)), (15, Some(2))]).map(|run| session(actor, run))
    }

    fn draft(&mut self, actor: Name, intent: Intent) -> Draft {
        let session = self.session(&actor);
        Draft { actor, session, intent, content: None }
    }

    fn content(&mut self) -> Option<Content> {
        if self.rng.chance(300) {
            return None;
        }
        let subject = format!("about {}", self.rng.below(1_000));
        let body = match self.rng.below(100) {
            0 => Body(vec![b'x'; limits::CONTENT_INLINE_BYTES_MAX + 1]),
            1 => Body(self.rng.bytes(40)),
            2..50 => Body(Vec::new()),
            _ => Body::from("please have a look"),
        };
        Some(Content { subject, body, ..Content::default() })
    }

    fn register(&mut self) -> Draft {
        let (who, kind, role, abilities) = *self.rng.pick(CAST);
        let register = Register {
            kind: Some(kind),
            role: role.map(word),
            capabilities: Some(abilities.iter().map(|ability| word(ability)).collect()),
            worktree: self.rng.chance(200).then(|| "/trees/one".to_owned()),
            lead: None,
            clears: Vec::new(),
            update: self.rng.chance(800),
        };
        self.draft(name(who), Intent::Register(register))
    }

    fn membership(&mut self, sight: &Sight) -> Draft {
        if self.rng.chance(300) && !sight.active.is_empty() {
            let actor = self.somebody(sight);
            let gone = self.somebody(sight);
            return self.draft(actor, Intent::Retire(Retire { name: gone }));
        }
        if self.rng.chance(300) {
            // An agent changes what it is, with mail and claims in hand.
            let role = if self.rng.chance(700) { Some(self.role()) } else { None };
            let capabilities = ABILITIES.iter().filter(|_| self.rng.chance(400)).map(|ability| word(ability)).collect();
            let register = Register {
                kind: None,
                role,
                capabilities: Some(capabilities),
                worktree: None,
                lead: None,
                clears: Vec::new(),
                update: true,
            };
            let actor = self.somebody(sight);
            return self.draft(actor, Intent::Register(register));
        }
        self.register()
    }

    fn role(&mut self) -> Word {
        let text = *self.rng.pick(ROLES);
        word(text)
    }

    fn ability(&mut self) -> Word {
        let text = *self.rng.pick(ABILITIES);
        word(text)
    }

    fn topic(&mut self) -> Topic {
        let text = *self.rng.pick(TOPICS);
        text.parse().expect("a topic")
    }

    fn address(&mut self, sight: &Sight) -> Address {
        match self.rng.below(100) {
            0..45 => Address::Agent(self.somebody(sight)),
            45..58 => Address::Role(self.role()),
            58..70 => Address::Can(self.ability()),
            70..75 => Address::EveryRole(self.role()),
            75..80 => Address::EveryCan(self.ability()),
            80..85 => Address::Everyone,
            85..96 => Address::Topic(self.topic()),
            96..98 => Address::Agent(name(STRANGER)),
            _ => match self.rng.pick_any(&sight.retired) {
                Some(agent) => Address::Agent(agent.name.clone()),
                None => Address::Agent(name(STRANGER)),
            },
        }
    }

    fn send_header(&mut self, to: Vec<Address>) -> Send {
        let rng = &mut self.rng;
        let kind = match rng.below(100) {
            0..2 => "no_such_type",
            2..8 => "deploy",
            // Work has the longer life, so it is asked for more often than its share of the vocabulary.
            8..50 => rng.pick(&["directive", "question", "draft_ready"]),
            _ => rng.pick(BUILT_IN).name,
        };
        Send {
            to,
            kind: type_name(kind),
            priority: rng.chance(250).then(|| *rng.pick(Priority::ALL)),
            reply_to: None,
            conversation: rng.chance(100).then(|| "planning".parse().expect("a label")),
            wants_response: rng.chance(100).then(|| rng.chance(500)),
            respond_by: rng.chance(80).then(|| When::InMs(rng.between(1, limits::HOUR_MS))),
            expires: rng.chance(200).then(|| When::InMs(rng.between(1_000, 2 * limits::MINUTE_MS))),
            not_before: rng.chance(150).then(|| When::InMs(rng.between(-1_000, limits::MINUTE_MS))),
            workflow: rng.chance(50).then(|| "release-7".parse().expect("a label")),
            step: rng.chance(50).then(|| "build".parse().expect("a label")),
            artifacts: if rng.chance(80) { vec![artifact("src/main.rs")] } else { Vec::new() },
            ends: None,
        }
    }

    fn send(&mut self, sight: &Sight) -> Draft {
        let count = self.rng.weighted(&[(75, 1), (20, 2), (5, 4)]);
        let mut to: Vec<Address> = (0..count).map(|_| self.address(sight)).collect();
        if let Some(agent) = self.rng.pick_any(&sight.active)
            && self.rng.chance(60)
        {
            // By name and as a member: two deliveries of one message to the same agent.
            to = agent.addresses();
        }
        let header = self.send_header(to);
        let actor = self.somebody(sight);
        Draft { content: self.content(), ..self.draft(actor, Intent::Send(header)) }
    }

    /// A recipient answers, with or without finishing, sometimes also to others.
    fn reply(&mut self, sight: &Sight) -> Option<Draft> {
        let seen = self.some_delivery(sight)?;
        let actor = self.taker(sight, &seen);
        let to = if self.rng.chance(700) { Vec::new() } else { vec![self.address(sight)] };
        let (token, session) = self.right(&seen, &actor);
        let ends = self.rng.chance(500).then_some(Ends { message: seen.message, how: EndsHow::Replied, token });
        let header = Send { reply_to: Some(seen.message), ends, ..self.send_header(to) };
        Some(Draft { actor, session, intent: Intent::Send(header), content: self.content() })
    }

    fn forward(&mut self, sight: &Sight) -> Option<Draft> {
        let seen = self.some_delivery(sight)?;
        let actor = self.taker(sight, &seen);
        let to = vec![self.address(sight)];
        let (token, session) = self.right(&seen, &actor);
        let ends = Ends { message: seen.message, how: EndsHow::Forwarded, token };
        let header = Send { ends: Some(ends), ..self.send_header(to) };
        Some(Draft { actor, session, intent: Intent::Send(header), content: self.content() })
    }

    /// Open deliveries mostly, held ones more often than their number.
    fn some_delivery(&mut self, sight: &Sight) -> Option<Seen> {
        let wanted = self.rng.weighted(&[(50, 0), (38, 1), (12, 2)]);
        let of = |wanted: u8| {
            sight.in_state(|seen| match wanted {
                0 => seen.state == State::Claimed,
                1 => seen.state == State::Pending,
                _ => !seen.state.is_open(),
            })
        };
        let mut candidates = of(wanted);
        if candidates.is_empty() {
            candidates = sight.in_state(|_| true);
        }
        self.rng.pick_any(&candidates).map(|seen| (*seen).clone())
    }

    /// Whoever holds a delivery or could; now and then somebody whose it is not.
    fn taker(&mut self, sight: &Sight, seen: &Seen) -> Name {
        if self.rng.chance(60) {
            return self.somebody(sight);
        }
        if let Some(holder) = &seen.holder
            && self.rng.chance(850)
        {
            return holder.clone();
        }
        match self.rng.pick_any(&sight.takers(seen)) {
            Some(agent) => agent.name.clone(),
            None => self.somebody(sight),
        }
    }

    /// Token and session to act on a delivery with: right, missing, stale or made up.
    fn right(&mut self, seen: &Seen, actor: &Name) -> (Option<Position>, Option<Session>) {
        let session = self.session(actor);
        match self.rng.below(100) {
            0..45 => (seen.token, session),
            45..70 => (None, seen.session.clone()),
            70..80 => (None, session),
            80..93 => {
                let old: Vec<&WonClaim> =
                    self.won.iter().filter(|won| won.actor == *actor && won.message == seen.message).collect();
                let Some(won) = self.rng.pick_any(&old) else { return (None, session) };
                if self.rng.chance(300) { (None, won.session.clone()) } else { (Some(won.token), session) }
            }
            _ => (Some(Position(*self.rng.pick(&[0, 1, 7, 40, u64::MAX]))), session),
        }
    }

    fn claim_number(&mut self, sight: &Sight) -> Option<Draft> {
        let ready = sight.in_state(|seen| seen.state == State::Pending && seen.ready);
        let seen = match self.rng.pick_any(&ready) {
            Some(seen) if self.rng.chance(850) => (*seen).clone(),
            _ => self.some_delivery(sight)?,
        };
        let actor = self.taker(sight, &seen);
        let claim = Claim { message: Some(seen.message), max: 1, lease_ms: self.lease_ms() };
        Some(self.draft(actor, Intent::Claim(claim)))
    }

    fn claim_next(&mut self, sight: &Sight) -> Draft {
        let max = u32::try_from(self.rng.weighted(&[(70, 1), (25, 3), (5, 100)])).expect("a small number");
        let claim = Claim { message: None, max, lease_ms: self.lease_ms() };
        let actor = self.somebody(sight);
        self.draft(actor, Intent::Claim(claim))
    }

    /// Short leases mostly: they are there to be lost.
    fn lease_ms(&mut self) -> Option<i64> {
        match self.rng.below(100) {
            0..70 => Some(self.rng.between(limits::LEASE_MS_MIN, limits::MINUTE_MS)),
            70..75 => Some(limits::LEASE_MS_MAX),
            _ => None,
        }
    }

    fn finish(&mut self, sight: &Sight) -> Option<Draft> {
        let seen = self.some_delivery(sight)?;
        let actor = self.taker(sight, &seen);
        let message = seen.message;
        let (token, session) = self.right(&seen, &actor);
        let intent = match self.rng.below(100) {
            0..45 => Intent::Done(Done { message, token, artifacts: Vec::new() }),
            45..60 => Intent::Fail(Fail { message, token, retry: false }),
            60..78 => Intent::Fail(Fail { message, token, retry: true }),
            78..89 => Intent::Release(Release { message, token }),
            _ => Intent::Extend(Extend { message, token, lease_ms: self.lease_ms() }),
        };
        Some(Draft { actor, session, intent, content: self.content() })
    }

    fn ack(&mut self, sight: &Sight) -> Option<Draft> {
        let seen = self.some_delivery(sight)?;
        let actor = self.taker(sight, &seen);
        Some(self.draft(actor, Intent::Ack(Ack { message: seen.message })))
    }

    fn shown(&mut self, sight: &Sight) -> Option<Draft> {
        let seen = self.rng.pick_any(&sight.seen)?.clone();
        let actor = self.taker(sight, &seen);
        let mut messages = vec![seen.message];
        let more = sight.in_state(|other| other.address == Address::Agent(actor.clone()));
        if let Some(other) = self.rng.pick_any(&more) {
            messages.push(other.message);
        }
        Some(self.draft(actor, Intent::Shown(Shown { messages })))
    }

    fn retry(&mut self, sight: &Sight) -> Option<Draft> {
        let bad = sight.in_state(|seen| seen.state.is_bad_end());
        let seen = (*self.rng.pick_any(&bad)?).clone();
        let humans: Vec<&Agent> = sight.active.iter().filter(|agent| agent.kind == AgentKind::Human).collect();
        let actor = match self.rng.pick_any(&humans) {
            Some(human) if self.rng.chance(600) => human.name.clone(),
            _ => seen.sender.parse().unwrap_or_else(|_| name(STRANGER)),
        };
        let recipient = self.rng.chance(300).then(|| seen.address.clone());
        Some(self.draft(actor, Intent::Retry(Retry { message: seen.message, recipient })))
    }

    fn subscription(&mut self, sight: &Sight) -> Draft {
        let actor = self.somebody(sight);
        let topic = match self.rng.below(4) {
            0 => TopicPattern::All,
            _ => TopicPattern::One(self.topic()),
        };
        let intent = if self.rng.chance(250) {
            Intent::Unsubscribe(Unsubscribe { topic })
        } else {
            let head = i64::try_from(sight.head.0).unwrap_or(i64::MAX);
            let from = self.rng.chance(500).then(|| Position(self.rng.between(0, head).unsigned_abs()));
            Intent::Subscribe(Subscribe { topic, from })
        };
        self.draft(actor, intent)
    }

    fn policy(&mut self, sight: &Sight) -> Draft {
        let rng = &mut self.rng;
        let settings = Settings {
            max_attempts: rng.chance(600).then(|| u32::try_from(rng.between(1, 4)).expect("a small number")),
            retry_delay_ms: rng.chance(600).then(|| rng.between(0, limits::MINUTE_MS)),
            lease_ms: rng.chance(500).then(|| rng.between(limits::LEASE_MS_MIN, 10 * limits::MINUTE_MS)),
            retention_ms: rng.chance(200).then_some(limits::DAY_MS),
            content_bytes_max: rng.chance(150).then_some(30),
            fan_out_max: rng.chance(150).then_some(2),
        };
        let deploy = PolicyType {
            name: type_name("deploy"),
            priority: *rng.pick(Priority::ALL),
            urgency: *rng.pick(Urgency::ALL),
            work: rng.chance(700),
            response: rng.chance(300),
            max_attempts: rng.chance(300).then_some(1),
            retry_delay_ms: rng.chance(300).then_some(0),
        };
        let replaces = if rng.chance(850) { sight.policy_version } else { sight.policy_version + 1 };
        let machine = rng.pick(&["one", "two"]).parse().expect("a label");
        let types = if rng.chance(700) { vec![deploy] } else { Vec::new() };
        let policy = Policy { replaces, machine, host: "desk".to_owned(), settings, types };
        Draft { actor: Name::poste(), session: None, intent: Intent::Policy(policy), content: None }
    }

    /// Records only the office makes, from those who may and those who may not.
    fn office_only(&mut self, sight: &Sight) -> Draft {
        let actor = if self.rng.chance(500) { Name::poste() } else { self.somebody(sight) };
        let intent = match self.rng.below(3) {
            0 => Intent::Tick(Tick {}),
            // Never a version above ours: that stops the fold, as it should, and the history with it.
            1 => Intent::Barrier(Barrier { fold_version: 1, reason: "again".to_owned() }),
            _ => Intent::Clock(Clock { leap_ms: self.rng.between(-limits::HOUR_MS, 2 * limits::DAY_MS) }),
        };
        Draft { actor, session: None, intent, content: None }
    }

    /// An id that was used before: for the same proposal, sent again, or for something else.
    fn same_id_again(&mut self, sight: &Sight) -> Option<Proposal> {
        let earlier = self.rng.pick_any(&self.proposed)?.clone();
        if self.rng.chance(600) {
            // Neither the sender's clock nor its session makes it another proposal.
            let session = if self.rng.chance(200) { None } else { earlier.session.clone() };
            return Some(Proposal { sent_at: sight.now, session, ..earlier });
        }
        let other = self.send(sight);
        Some(Proposal { actor: other.actor, intent: other.intent, content: other.content, ..earlier })
    }

    /// Values at and beyond the edge of everything.
    fn hostile(&mut self, sight: &Sight) -> Draft {
        let known = sight.message_last;
        let message = MessageNo(*self.rng.pick(&[0, u64::MAX, i64::MAX as u64, known + 1, known]));
        let token = Some(Position(*self.rng.pick(&[0, u64::MAX, i64::MAX as u64])));
        let lease_ms = Some(*self.rng.pick(&[i64::MIN, -1, 0, limits::LEASE_MS_MAX + 1, i64::MAX]));
        let when = *self.rng.pick(&[
            When::InMs(i64::MAX),
            When::InMs(i64::MIN),
            When::At(Timestamp::ZERO),
            When::At(Timestamp::MAX),
            When::InMs(0),
        ]);
        let actor = match self.rng.below(10) {
            0 => Name::poste(),
            1 => name(STRANGER),
            _ => self.somebody(sight),
        };
        let header = self.send_header(vec![Address::Agent(actor.clone())]);
        let one_artifact = |path: &str| vec![artifact(path)];
        let register = |capabilities: Vec<Word>, worktree: Option<&str>| Register {
            kind: Some(AgentKind::Agent),
            role: None,
            capabilities: Some(capabilities),
            worktree: worktree.map(str::to_owned),
            lead: None,
            clears: Vec::new(),
            update: true,
        };
        let intent = match self.rng.below(18) {
            0 => Intent::Claim(Claim { message: Some(message), max: 1, lease_ms: None }),
            1 => Intent::Claim(Claim { message: None, max: 1, lease_ms }),
            2 => Intent::Claim(Claim { message: None, max: *self.rng.pick(&[0, u32::MAX]), lease_ms: None }),
            3 => Intent::Done(Done { message, token, artifacts: one_artifact("") }),
            4 => Intent::Done(Done { message, token, artifacts: Vec::new() }),
            5 => Intent::Extend(Extend { message, token, lease_ms }),
            6 => Intent::Shown(Shown { messages: Vec::new() }),
            7 => Intent::Shown(Shown { messages: vec![message; limits::SHOWN_MAX + 1] }),
            8 => Intent::Send(Send { to: Vec::new(), ..header }),
            9 => Intent::Send(Send { to: vec![Address::Everyone; limits::ADDRESSES_MAX + 1], ..header }),
            10 => Intent::Send(Send { expires: Some(when), ..header }),
            11 => Intent::Send(Send { not_before: Some(when), respond_by: Some(when), ..header }),
            12 => Intent::Send(Send { reply_to: Some(message), ..header }),
            13 => Intent::Register(register(Vec::new(), Some("not/absolute"))),
            14 => {
                let many = (0..=limits::CAPABILITIES_MAX).map(|number| word(&format!("can-{number}")));
                Intent::Register(register(many.collect(), None))
            }
            15 => Intent::Subscribe(Subscribe { topic: TopicPattern::All, from: Some(Position(u64::MAX)) }),
            16 => Intent::Policy(Policy {
                replaces: sight.policy_version,
                machine: "edge".parse().expect("a label"),
                host: String::new(),
                settings: Settings { max_attempts: Some(0), lease_ms, ..Settings::default() },
                types: Vec::new(),
            }),
            _ => Intent::Retire(Retire { name: name(STRANGER) }),
        };
        let actor = if matches!(intent, Intent::Policy(_)) { Name::poste() } else { actor };
        self.draft(actor, intent)
    }
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn word(text: &str) -> Word {
    text.parse().expect("a word")
}

fn type_name(text: &str) -> TypeName {
    text.parse().expect("a type")
}

fn session(actor: &Name, run: u32) -> Session {
    format!("{actor}-{run}").parse().expect("a session")
}

fn artifact(path: &str) -> Artifact {
    Artifact { path: path.to_owned(), worktree: None, state: ArtifactState::Later, size: None, digest: None }
}
