//! Handles one rule: takes it, sends its notifications, advances its cursor, and releases it.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use poste_config::OnRule;
use poste_core::error::Error;
use poste_core::fold::{Code, Effect, Handling, Outcome, Verdict};
use poste_core::log::{Author, Content, HandlerCursor, HandlerDead, HandlerRelease, HandlerTake, Intent, Send};
use poste_core::office::Place;
use poste_core::time::Timestamp;
use poste_core::views::{self, MessageView};
use poste_core::{Address, MessageNo, Office, Position, limits};

use super::channels::{self, AttemptContext, Failure};
use super::matching::Matcher;
use super::post::Post;
use super::watcher::{Setting, What};
use crate::mark::office_id;

/// Number of messages read at once.
const PAGE: usize = 200;
/// How far an attempt may exceed its time limit before another watcher may take the rule.
const SLACK_MS: i64 = limits::SECOND_MS;

/// The outcome of handling a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing is left to send.
    Done,
    /// Another watcher holds it.
    Held,
    /// Another watcher took over while a message was being sent.
    Lost,
    Stopped,
}

/// The lease of a rule: long enough for two attempts.
fn lease_ms(rule: &OnRule) -> i64 {
    (2 * (rule.timeout_ms + SLACK_MS)).min(limits::LEASE_MS_MAX)
}

/// The first messages after a position that a rule matches, all of one record, and how far the log was read.
pub(super) struct Next {
    pub found: Option<(Position, Vec<MessageView>)>,
    pub looked: Position,
    /// Damaged messages, which cannot be matched.
    pub unreadable: Vec<(MessageNo, String)>,
}

pub(super) fn next_match(office: &Office, matcher: &Matcher, after: Position) -> Result<Next, Error> {
    let (mut after, mut page_size) = (after, PAGE);
    let mut unreadable = Vec::new();
    loop {
        let (page, head) = views::stored_after(office.store(), after, page_size)?;
        let (Some(first), Some(last)) = (page.first(), page.last()) else {
            return Ok(Next { found: None, looked: head, unreadable });
        };
        let (first, last) = (first.position, last.position);
        let is_whole = page.len() < page_size;
        // A page may end between the messages of one record.
        if !is_whole && first == last {
            page_size *= 4;
            continue;
        }
        let mut found: Option<(Position, Vec<MessageView>)> = None;
        for mail in page.into_iter().filter(|mail| is_whole || mail.position != last) {
            if found.as_ref().is_some_and(|(position, _)| *position != mail.position) {
                break;
            }
            let fits = match mail.header {
                Ok(header) => matcher.fits(&header),
                Err(damage) => {
                    unreadable.push((mail.number, damage));
                    false
                }
            };
            if !fits {
                continue;
            }
            match views::message(office.store(), mail.number) {
                Ok(Some(message)) if matcher.fits_text(&message) => {
                    found.get_or_insert_with(|| (mail.position, Vec::new())).1.push(message);
                }
                Ok(_) => {}
                Err(Error::Damaged(damage)) => unreadable.push((mail.number, damage)),
                Err(error) => return Err(error),
            }
        }
        if found.is_some() {
            return Ok(Next { found, looked: head, unreadable });
        }
        if is_whole {
            return Ok(Next { found: None, looked: head, unreadable });
        }
        after = Position(last.0 - 1);
    }
}

/// Takes a rule, unless another watcher holds it. The first take starts its cursor.
pub(super) fn take(office: &mut Office, setting: &Setting, rule: &OnRule) -> Result<Option<Handling>, Error> {
    let take = HandlerTake {
        rule: rule.name.clone(),
        lease_ms: lease_ms(rule),
        token: None,
        from: rule.from_start.then_some(Position(0)),
    };
    match propose(office, setting, Intent::HandlerTake(take))?.verdict {
        Verdict::Accepted(Effect::Handling(handling)) => Ok(Some(handling)),
        // The lease ended before the outcome arrived.
        Verdict::Accepted(_) => Ok(None),
        Verdict::Rejected(rejection) if rejection.code == Code::RuleHeld => Ok(None),
        Verdict::Rejected(rejection) => Err(rejection.into()),
    }
}

fn author(setting: &Setting) -> Author {
    Author::new(setting.speaker.clone(), setting.carrier.via)
}

fn propose(office: &mut Office, setting: &Setting, intent: Intent) -> Result<Outcome, Error> {
    let proposal = office.proposal(&author(setting), intent, None);
    let outcome = poste_config::propose(office, &proposal);
    // Even after a refusal, because anything due before it was recorded.
    setting.carrier.carry_out(office);
    outcome
}

/// Starts the cursor of a rule: messages from now on are reported.
pub(super) fn begin(setting: &Setting, office: &mut Office, rule: &OnRule) -> Result<(), Error> {
    let Some(handling) = take(office, setting, rule)? else { return Ok(()) };
    HeldRule::new(office, setting, rule, handling).finish(None)?;
    if !rule.from_start && views::count_after(office.store(), Position(0))? > 0 {
        let why =
            "reports messages from now on; for earlier ones: a rule of another name with since = \"start\"".to_owned();
        setting.say(rule, None, What::Begun, Some(why), 0);
    }
    Ok(())
}

/// Advances a cursor over messages that do not match. If another watcher holds the rule, it does so itself.
pub(super) fn move_on(setting: &Setting, office: &mut Office, rule: &OnRule, to: Position) -> Result<(), Error> {
    let Some(handling) = take(office, setting, rule)? else { return Ok(()) };
    let mut held = HeldRule::new(office, setting, rule, handling);
    let is_further = to > held.cursor;
    held.finish(is_further.then_some(to)).map(drop)
}

/// A rule that this process holds.
pub(super) struct HeldRule<'r> {
    pub office: &'r mut Office,
    setting: &'r Setting,
    rule: &'r OnRule,
    pub token: Position,
    until: Timestamp,
    cursor: Position,
}

/// The outcome of sending one message.
enum SendResult {
    Done,
    Lost,
    Stopped,
}

/// Handles a rule until nothing is left to send.
pub(super) fn handle_rule(setting: &Setting, matcher: &Matcher, up_to: Option<Position>) -> Result<Seen, Error> {
    let mut office = poste_config::open(&setting.place)?;
    let rule = &matcher.rule;
    let Some(handling) = take(&mut office, setting, rule)? else { return Ok(Seen::Held) };
    let id = office_id(&office)?;
    let folders = Folders::of(&setting.place);
    let mut held = HeldRule::new(&mut office, setting, rule, handling);
    let mut next = next_match(held.office, matcher, held.cursor)?;
    loop {
        for (number, damage) in std::mem::take(&mut next.unreadable) {
            setting.say(rule, Some(number), What::Problem, Some(damage), 0);
        }
        let Some((position, messages)) = next.found.take() else {
            held.finish((next.looked > held.cursor).then_some(next.looked))?;
            return Ok(Seen::Done);
        };
        if up_to.is_some_and(|up_to| position > up_to) {
            held.finish(None)?;
            return Ok(Seen::Done);
        }
        for message in messages {
            // A previous watcher gave up on it and died before it advanced the cursor.
            if views::is_untold(held.office.store(), &rule.name, message.number)? {
                continue;
            }
            match held.notify(&folders, Post::of(held.office, &id, &rule.name, message)?)? {
                SendResult::Done => {}
                SendResult::Lost => {
                    setting.say(rule, None, What::Lost, None, 0);
                    return Ok(Seen::Lost);
                }
                SendResult::Stopped => {
                    held.finish(None)?;
                    return Ok(Seen::Stopped);
                }
            }
        }
        next = next_match(held.office, matcher, position)?;
        // Written before the next message is sent, so that a crash repeats at most one.
        if next.found.is_some() {
            if setting.stop.is_raised() {
                held.finish(Some(position))?;
                return Ok(Seen::Stopped);
            }
            if !held.move_to(position)? {
                return Ok(Seen::Lost);
            }
        }
    }
}

/// The two folders that handlers need.
pub(super) struct Folders {
    office: PathBuf,
    config: PathBuf,
}

impl Folders {
    pub fn of(place: &Place) -> Self {
        let office = std::path::absolute(&place.path).unwrap_or_else(|_| place.path.clone());
        let config = office.parent().unwrap_or(Path::new("/")).to_owned();
        Self { office, config }
    }

    pub fn context<'s>(&'s self, rule: &OnRule, now: Timestamp, stop: &'s AtomicBool) -> AttemptContext<'s> {
        AttemptContext {
            office: &self.office,
            folder: &self.config,
            timeout: Duration::from_millis(rule.timeout_ms.unsigned_abs()),
            now_s: now.ms().div_euclid(1_000),
            stop,
        }
    }
}

impl<'r> HeldRule<'r> {
    pub fn new(office: &'r mut Office, setting: &'r Setting, rule: &'r OnRule, handling: Handling) -> Self {
        let Handling { token, until, cursor, .. } = handling;
        Self { office, setting, rule, token, until, cursor }
    }

    /// Retries until the message is sent or its attempts are used up; then it is a dead letter.
    fn notify(&mut self, folders: &Folders, post: Post) -> Result<SendResult, Error> {
        let setting = self.setting;
        let number = Some(post.message.number);
        let mut attempt = 1;
        let is_new = self.office.wall().since_ms(post.message.at) < limits::HANDLER_PACE_MS;
        let per_minute = self.rule.per_minute;
        let pace = setting.pace.as_ref().filter(|_| is_new);
        while let Some(wait) = pace.and_then(|pace| pace.wait(Instant::now(), per_minute)) {
            let (messages, seconds) = (if per_minute == 1 { "message" } else { "messages" }, wait.as_secs() + 1);
            let why = format!(
                "reported {per_minute} {messages} within a minute and pauses for {seconds}s: does it cause them itself?"
            );
            setting.say(self.rule, number, What::Problem, Some(why), 0);
            match self.pause(wait)? {
                SendResult::Done => {}
                other => return Ok(other),
            }
        }
        loop {
            if setting.stop.is_raised() {
                return Ok(SendResult::Stopped);
            }
            if !self.keep_for_attempt()? {
                return Ok(SendResult::Lost);
            }
            let context = folders.context(self.rule, self.office.wall(), setting.stop.flag());
            let Err(failure) = channels::send(&self.rule.handler, &post, context) else {
                setting.say(self.rule, number, What::Told, None, attempt);
                return Ok(SendResult::Done);
            };
            // The attempt was interrupted: the next watcher sends the message with the same key.
            if setting.stop.is_raised() {
                return Ok(SendResult::Stopped);
            }
            if failure.is_final || attempt >= self.rule.attempts {
                setting.say(self.rule, number, What::Dead, Some(failure.why.clone()), attempt);
                // People have the alert about the other rule in their inbox, and this rule already has a dead letter:
                // add no second one.
                if self.is_about_failure(&post.message)? && self.has_failed()? {
                    return Ok(SendResult::Done);
                }
                let mail = self.alert(&post.message)?;
                return Ok(if self.give_up(post.message.number, attempt, &failure, mail)? {
                    SendResult::Done
                } else {
                    SendResult::Lost
                });
            }
            setting.say(self.rule, number, What::Failed, Some(failure.why.clone()), attempt);
            match self.pause(pause_before(self.rule, attempt, &failure))? {
                SendResult::Done => attempt += 1,
                other => return Ok(other),
            }
        }
    }

    fn pause(&mut self, length: Duration) -> Result<SendResult, Error> {
        let lease_ms = lease_ms(self.rule);
        // Short enough to renew the lease in time.
        let slice = Duration::from_millis((lease_ms / 8).unsigned_abs());
        let until = Instant::now() + length;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(SendResult::Done);
            }
            if self.setting.stop.is_raised() {
                return Ok(SendResult::Stopped);
            }
            if !self.keep(lease_ms / 3)? {
                return Ok(SendResult::Lost);
            }
            self.setting.stop.sleep(left.min(slice));
        }
    }

    /// False: another watcher has the rule.
    pub fn keep_for_attempt(&mut self) -> Result<bool, Error> {
        self.keep(self.rule.timeout_ms + SLACK_MS)
    }

    /// Makes sure that the lease lasts at least `needed_ms` more. False: another watcher has the rule.
    fn keep(&mut self, needed_ms: i64) -> Result<bool, Error> {
        if self.until.since_ms(self.office.now()?) >= needed_ms {
            return Ok(true);
        }
        let rule = self.rule.name.clone();
        let take = HandlerTake { rule, lease_ms: lease_ms(self.rule), token: Some(self.token), from: None };
        match propose(self.office, self.setting, Intent::HandlerTake(take))?.verdict {
            Verdict::Accepted(Effect::Handling(handling)) => {
                self.until = handling.until;
                Ok(true)
            }
            Verdict::Accepted(_) => Ok(false),
            Verdict::Rejected(rejection) if rejection.code == Code::LeaseLost => Ok(false),
            Verdict::Rejected(rejection) => Err(rejection.into()),
        }
    }

    fn move_to(&mut self, position: Position) -> Result<bool, Error> {
        let moved = self.submit(vec![(self.cursor_at(position), None)])?;
        self.cursor = position;
        Ok(moved)
    }

    fn cursor_at(&self, position: Position) -> Intent {
        Intent::HandlerCursor(HandlerCursor { rule: self.rule.name.clone(), token: self.token, position })
    }

    /// Releases the rule, with its cursor at this position if given.
    pub fn finish(&mut self, cursor: Option<Position>) -> Result<bool, Error> {
        let release = HandlerRelease { rule: self.rule.name.clone(), token: self.token };
        let mut intents: Vec<(Intent, Option<Content>)> = Vec::new();
        intents.extend(cursor.map(|position| (self.cursor_at(position), None)));
        intents.push((Intent::HandlerRelease(release), None));
        self.submit(intents)
    }

    pub fn give_up(
        &mut self,
        message: MessageNo,
        attempts: u32,
        failure: &Failure,
        mail: Option<Send>,
    ) -> Result<bool, Error> {
        let rule = self.rule.name.clone();
        let body = match mail {
            None => failure.why.clone(),
            Some(_) => format!(
                "{}\n\nRule {rule} tried {attempts} times to report message {message}. Until it is fixed, others may \
                 fail as well.\n\nList failures: poste watch dead {rule}\nRetry them: poste watch retry {rule}",
                failure.why
            ),
        };
        let subject = format!("{rule} could not report #{message}");
        let content = Content { subject, body: body.as_str().into(), ..Content::default() };
        let dead = HandlerDead { rule, token: self.token, message, attempts, mail };
        self.submit(vec![(Intent::HandlerDead(dead), Some(content))])
    }

    /// The alert about a dead letter: one for the first of several in a row, and none if the message is such an alert
    /// itself.
    fn alert(&self, message: &MessageView) -> Result<Option<Send>, Error> {
        if self.is_about_failure(message)? || self.keeps_failing(message)? {
            return Ok(None);
        }
        let mut to: Vec<Address> = self.rule.tell.clone();
        if to.is_empty() {
            to = views::active_humans(self.office.store())?.into_iter().map(Address::Agent).collect();
        }
        to.truncate(limits::ADDRESSES_MAX);
        let alert = "alert".parse().map_err(|error| Error::Damaged(format!("{error}")))?;
        Ok((!to.is_empty()).then(|| Send::plain(alert, to)))
    }

    /// Whether a message is the alert about a failed notification.
    fn is_about_failure(&self, message: &MessageView) -> Result<bool, Error> {
        let record = views::sealed(self.office.store(), message.position)?;
        let intent = record.and_then(|record| record.intent().ok().flatten());
        Ok(matches!(intent, Some(Intent::HandlerDead(_))))
    }

    fn has_failed(&self) -> Result<bool, Error> {
        Ok(!views::untold_attempts(self.office.store(), &self.rule.name, 1)?.is_empty())
    }

    /// Whether the previous message that the rule matched is a dead letter, too. An old dead letter must not suppress
    /// the alert if messages were sent after it. Alerts about failed notifications between the two do not count.
    fn keeps_failing(&self, message: &MessageView) -> Result<bool, Error> {
        let earlier = views::last_untold_before(self.office.store(), &self.rule.name, message.number)?;
        let Some(earlier) = earlier else { return Ok(false) };
        if earlier == message.position {
            return Ok(true);
        }
        let matcher = Matcher::new(self.rule.clone())?;
        let mut after = earlier;
        while let Some((position, found)) = next_match(self.office, &matcher, after)?.found {
            if position == message.position {
                return Ok(true);
            }
            if !found.first().map(|found| self.is_about_failure(found)).transpose()?.unwrap_or(false) {
                break;
            }
            after = position;
        }
        Ok(false)
    }

    /// False: another watcher has the rule.
    pub fn submit(&mut self, intents: Vec<(Intent, Option<Content>)>) -> Result<bool, Error> {
        let by = author(self.setting);
        let proposals = intents.into_iter().map(|(intent, content)| self.office.proposal(&by, intent, content));
        let proposals: Vec<_> = proposals.collect();
        let mut is_held = true;
        let outcomes = poste_config::submit(self.office, &proposals)?;
        self.setting.carrier.carry_out(self.office);
        for (outcome, proposal) in outcomes.into_iter().zip(proposals) {
            let Verdict::Rejected(rejection) = outcome.verdict else { continue };
            match (rejection.code, proposal.intent) {
                (Code::LeaseLost, _) => is_held = false,
                // Another watcher has already moved it there.
                (Code::NothingToDo, _) => {}
                // The agents that the rule names may have retired. The failure is recorded all the same.
                (_, Intent::HandlerDead(dead)) if dead.mail.is_some() => {
                    let dead = Intent::HandlerDead(HandlerDead { mail: None, ..dead });
                    is_held &= self.submit(vec![(dead, proposal.content)])?;
                }
                _ => return Err(rejection.into()),
            }
        }
        Ok(is_held)
    }
}

/// Doubles each time, up to a limit. A longer delay that the receiver asked for counts, up to the same limit.
fn pause_before(rule: &OnRule, attempt: u32, failure: &Failure) -> Duration {
    let longest = Duration::from_millis(limits::HANDLER_PAUSE_MS_MAX.unsigned_abs());
    let first = Duration::from_millis(rule.backoff_ms.unsigned_abs());
    let own = first.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1).min(20)));
    own.max(failure.again_in.unwrap_or_default()).min(longest)
}
