//! One thread that waits for changes, and one for each rule while it has something to send.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use poste_config::{OnRule, OnRules};
use poste_core::error::Error;
use poste_core::office::{Place, Stop};
use poste_core::store::{Interest, Interrupt};
use poste_core::text::{Label, Name};
use poste_core::time::{Timestamp, rfc3339};
use poste_core::views;
use poste_core::{MessageNo, Office, Position, limits};
use schemars::JsonSchema;
use serde::Serialize;

use super::held::{Seen, begin, handle_rule, move_on, next_match};
use super::matching::Matcher;
use super::secret;
use crate::speaker;
use poste_verbs::actions::Carrier;
use poste_verbs::{Note, note};

/// How often the files are checked, and how long a rule pauses after a failure.
const PERIOD: Duration = Duration::from_secs(1);
/// Number of messages that do not match a rule after which its cursor is advanced.
const PASSED_MAX: u64 = 50;

/// How a watcher is started.
#[derive(Clone)]
pub struct WatchOptions {
    pub place: Place,
    /// The agent in whose name rules are handled; by default the office's own service.
    pub speaker: Option<Name>,
    /// Only these rules. Empty: all.
    pub only: Vec<Label>,
    /// Carries out the actions of the watcher's records.
    pub carrier: Carrier,
    /// Called with every event, from several threads.
    pub report: Arc<dyn Fn(&Line) + Send + Sync>,
}

impl std::fmt::Debug for WatchOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchOptions").field("place", &self.place).field("only", &self.only).finish_non_exhaustive()
    }
}

/// An event of a rule.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Line {
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub rule: Option<Label>,
    /// How the rule notifies.
    pub handler: Option<String>,
    pub message: Option<MessageNo>,
    pub what: What,
    /// Counted from 1.
    pub attempt: Option<u32>,
    pub why: Option<String>,
}

impl Line {
    /// What to do about it.
    pub fn next(&self) -> Option<Note> {
        (self.what == What::Untrusted).then(|| note!("review it, then trust it: "[trust]))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The rule is handled for the first time.
    Begun,
    Told,
    /// It is retried.
    Failed,
    /// It is a dead letter of the rule now.
    Dead,
    /// Another watcher took the rule over.
    Lost,
    /// The rule is not run: its file is not trusted here.
    Untrusted,
    Problem,
}

/// Shared by all threads of a watcher.
#[derive(Clone)]
pub(super) struct Setting {
    pub place: Place,
    pub speaker: Name,
    pub stop: Interrupt,
    pub carrier: Carrier,
    pub report: Arc<dyn Fn(&Line) + Send + Sync>,
    /// None: it only catches up to where the log ended when it started.
    pub pace: Option<Arc<Pace>>,
}

/// Limits how fast a rule reports new messages, because a notification may itself cause the next message.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<VecDeque<Instant>>);

impl Pace {
    /// How long to wait before the next one, if `per_minute` were sent within the last minute.
    pub fn wait(&self, now: Instant, per_minute: u32) -> Option<Duration> {
        let window = Duration::from_millis(limits::HANDLER_PACE_MS.unsigned_abs());
        let mut sent = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let left = |at: &Instant| window.saturating_sub(now.saturating_duration_since(*at));
        while sent.front().is_some_and(|at| left(at).is_zero()) {
            sent.pop_front();
        }
        if sent.len() >= per_minute as usize {
            return sent.front().map(left);
        }
        sent.push_back(now);
        None
    }
}

impl Setting {
    pub fn say(&self, rule: &OnRule, message: Option<MessageNo>, what: What, why: Option<String>, attempt: u32) {
        self.report(Some(rule), message, what, why, attempt);
    }

    fn problem(&self, why: String) {
        self.report(None, None, What::Problem, Some(why), 0);
    }

    fn report(&self, rule: Option<&OnRule>, message: Option<MessageNo>, what: What, why: Option<String>, attempt: u32) {
        (self.report)(&Line {
            at: self.place.clock.wall(),
            rule: rule.map(|rule| rule.name.clone()),
            handler: rule.map(|rule| rule.handler.word().to_owned()),
            message,
            what,
            attempt: (attempt > 0).then_some(attempt),
            why,
        });
    }
}

/// Handles the rules of an office until it is stopped.
#[derive(Debug)]
pub struct Watcher {
    stop: Interrupt,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Watcher {
    /// Rules that cannot be read are an error here, and a reported problem later.
    pub fn start(options: WatchOptions) -> Result<Self, Error> {
        let stop = Interrupt::default();
        // Without rules nothing is written; the thread waits for the first ones.
        let ready = match poste_config::on_rules(&poste_config::open(&options.place)?)?.rules.is_empty() {
            true => None,
            false => Some(set_up(&options, &stop)?),
        };
        let thread = std::thread::Builder::new().name("watch".to_owned());
        let is_stopped = stop.clone();
        let thread = thread.spawn(move || {
            let ready = match ready {
                Some(ready) => Some(ready),
                None => first_rules(&options, &is_stopped)?,
            };
            let Some((setting, mut rules)) = ready else { return Ok(()) };
            let mut office = poste_config::open(&setting.place)?;
            let ended = watch(&setting, &mut office, &mut rules, &options.only);
            if let Err(error) = &ended {
                setting.problem(format!("rules are no longer handled here: {error}"));
            }
            setting.stop.raise();
            rules.end(&setting, &mut office);
            ended
        });
        let thread = thread.map_err(|error| Error::Damaged(format!("could not start a thread: {error}")))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Whether it ended on an error; [`stop`](Self::stop) returns it.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for current attempts to end, and releases all rules.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.stop.raise();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(Error::Damaged("the watcher ended with a panic".to_owned())),
            None => Ok(()),
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Starts the cursor of each new rule, so that it reports messages from now on.
pub fn begin_rules(options: &WatchOptions) -> Result<(), Error> {
    let (setting, rules) = set_up(options, &Interrupt::default())?;
    let mut office = poste_config::open(&setting.place)?;
    rules.watched.values().try_for_each(|watched| begin_once(&setting, &mut office, &watched.matcher.rule))
}

fn begin_once(setting: &Setting, office: &mut Office, rule: &OnRule) -> Result<(), Error> {
    let has_begun = views::handler(office.store(), &rule.name)?.is_some();
    if has_begun { Ok(()) } else { begin(setting, office, rule) }
}

/// Sends what is due now, and returns. Skips rules that another watcher holds.
pub fn catch_up(options: &WatchOptions) -> Result<(), Error> {
    let (setting, mut rules) = set_up(options, &Interrupt::default())?;
    let mut office = poste_config::open(&setting.place)?;
    // Messages sent from here on are left for the next time: a rule may have caused them.
    let up_to = office.head()?.position;
    for watched in rules.watched.values_mut() {
        begin_once(&setting, &mut office, &watched.matcher.rule)?;
        let next = next_match(&office, &watched.matcher, watched.start(&office)?)?;
        match next.found {
            Some(_) => watched.work(&setting, Some(up_to)),
            None => watched.clean = next.looked,
        }
    }
    let mut ended = Ok(());
    for watched in rules.watched.values_mut() {
        if let Some(worker) = watched.worker.take() {
            let seen = worker.join().unwrap_or_else(|_| Err(Error::Damaged("a rule ended with a panic".to_owned())));
            ended = ended.and(seen.map(drop));
        } else {
            watched.pass(&mut office, &setting, 1)?;
        }
    }
    ended
}

/// Waits for the first rules to be written. None: it was stopped before.
fn first_rules(options: &WatchOptions, stop: &Interrupt) -> Result<Option<(Setting, Rules)>, Error> {
    let office = poste_config::open(&options.place)?;
    loop {
        stop.sleep(PERIOD);
        if stop.is_raised() {
            return Ok(None);
        }
        // A file that cannot be read has no rules yet; `config check` reports the error.
        if poste_config::on_rules(&office).is_ok_and(|read| !read.rules.is_empty())
            && let Ok(ready) = set_up(options, stop)
        {
            return Ok(Some(ready));
        }
    }
}

fn set_up(options: &WatchOptions, stop: &Interrupt) -> Result<(Setting, Rules), Error> {
    let mut office = poste_config::open(&options.place)?;
    poste_config::sync_policy(&mut office)?;
    let speaker = speaker::speaker(&mut office, options.speaker.clone())?;
    options.carrier.carry_out(&mut office);
    let setting = Setting {
        place: options.place.clone(),
        speaker,
        stop: stop.clone(),
        carrier: options.carrier.clone(),
        report: Arc::clone(&options.report),
        pace: None,
    };
    let mut rules = Rules::default();
    rules.take(&setting, poste_config::on_rules(&office)?, &options.only)?;
    Ok((setting, rules))
}

fn watch(setting: &Setting, office: &mut Office, rules: &mut Rules, only: &[Label]) -> Result<(), Error> {
    while !setting.stop.is_raised() {
        // Any change may matter: rules match on more than the keys of an interest.
        let looked = office.wait_unless(&Interest::everything(), Some(PERIOD), Stop::Raised(&setting.stop), |office| {
            let looked = rules.look(setting, office);
            // A tick may have been recorded here.
            setting.carrier.carry_out(office);
            looked?;
            Ok(None::<()>)
        });
        match looked {
            Ok(_) => {}
            // The office is full, locked or being restored: wait until that passes or a person fixes it.
            Err(error) if is_passing(&error) => {
                setting.problem(error.to_string());
                setting.stop.sleep(PERIOD);
            }
            Err(error) => return Err(error),
        }
        rules.reload(setting, office, only)?;
    }
    Ok(())
}

fn is_passing(error: &Error) -> bool {
    matches!(error, Error::Busy { .. } | Error::DiskFull { .. } | Error::WalFull { .. } | Error::ClockLeap { .. })
}

/// The rules being handled.
#[derive(Default)]
struct Rules {
    watched: BTreeMap<Label, Watched>,
    /// Workers of removed rules.
    leaving: Vec<JoinHandle<Result<Seen, Error>>>,
    /// The rules as last read.
    read: OnRules,
    /// The current error in the files, reported once.
    problem: Option<String>,
}

struct Watched {
    matcher: Arc<Matcher>,
    /// Up to here nothing is left to send.
    clean: Position,
    worker: Option<JoinHandle<Result<Seen, Error>>>,
    /// After a failure of the office, not of the receiver.
    not_before: Option<Instant>,
    /// That failure, reported once.
    troubled: Option<String>,
    /// Ends its worker, because the watcher stops or the rule has changed.
    stop: Interrupt,
    pace: Arc<Pace>,
}

impl Rules {
    fn take(&mut self, setting: &Setting, read: OnRules, only: &[Label]) -> Result<(), Error> {
        let folder = setting.place.path.parent().map(ToOwned::to_owned).unwrap_or_default();
        let mut watched = BTreeMap::new();
        for rule in &read.rules {
            if !only.is_empty() && !only.contains(&rule.name) {
                continue;
            }
            if !read.may_run(rule) {
                let why = format!("{} is not trusted here", rule.source.file());
                setting.say(rule, None, What::Untrusted, Some(why), 0);
                continue;
            }
            let before = self.watched.remove(&rule.name);
            if let Some(mut before) = before {
                if before.matcher.rule != *rule {
                    // Messages that the old rule has passed stay passed.
                    before.matcher = Arc::new(Matcher::new(rule.clone())?);
                    before.stop.raise();
                }
                watched.insert(rule.name.clone(), before);
                continue;
            }
            if let Some(why) = secret::unusable(&rule.handler, &folder) {
                let why = format!("{}:{}: {why}", rule.source.file(), rule.line);
                setting.say(rule, None, What::Problem, Some(why), 0);
            }
            let matcher = Arc::new(Matcher::new(rule.clone())?);
            let stop = Interrupt::default();
            let new = Watched {
                matcher,
                clean: Position(0),
                worker: None,
                not_before: None,
                troubled: None,
                stop,
                pace: Arc::default(),
            };
            watched.insert(rule.name.clone(), new);
        }
        for (_, removed) in std::mem::replace(&mut self.watched, watched) {
            removed.stop.raise();
            self.leaving.extend(removed.worker);
        }
        self.leaving.retain(|worker| !worker.is_finished());
        self.read = read;
        Ok(())
    }

    fn reload(&mut self, setting: &Setting, office: &Office, only: &[Label]) -> Result<(), Error> {
        match poste_config::on_rules(office) {
            Ok(read) if read == self.read => {
                self.problem = None;
                Ok(())
            }
            Ok(read) => {
                self.problem = None;
                self.take(setting, read, only)
            }
            Err(error @ (Error::Config { .. } | Error::Io { .. })) => {
                let why = format!("{error}; the previous rules stay in force");
                if self.problem.as_ref() != Some(&why) {
                    setting.problem(why.clone());
                    self.problem = Some(why);
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn look(&mut self, setting: &Setting, office: &mut Office) -> Result<(), Error> {
        for watched in self.watched.values_mut() {
            match watched.look(setting, office) {
                Ok(()) => {}
                Err(error) if is_passing(&error) => return Err(error),
                // Only this rule is affected, and the cause may pass: a retired speaker may be revived.
                Err(error) => watched.trouble(setting, error.to_string()),
            }
        }
        Ok(())
    }

    /// Ends all workers, and writes the cursors of idle rules.
    fn end(&mut self, setting: &Setting, office: &mut Office) {
        self.watched.values().for_each(|watched| watched.stop.raise());
        self.leaving.drain(..).for_each(|worker| drop(worker.join()));
        for watched in self.watched.values_mut() {
            if let Some(worker) = watched.worker.take() {
                let _ = worker.join();
            } else if let Err(error) = watched.pass(office, setting, 1) {
                setting.problem(error.to_string());
            }
        }
    }
}

impl Watched {
    fn start(&self, office: &Office) -> Result<Position, Error> {
        let cursor = views::handler(office.store(), &self.matcher.rule.name)?.map(|handler| handler.cursor);
        Ok(self.clean.max(cursor.unwrap_or_default()))
    }

    /// Starts a worker that sends what is due, up to a position if given.
    fn work(&mut self, setting: &Setting, up_to: Option<Position>) {
        self.stop = Interrupt::default();
        let pace = up_to.is_none().then(|| Arc::clone(&self.pace));
        let setting = Setting { stop: self.stop.clone(), pace, ..setting.clone() };
        let matcher = Arc::clone(&self.matcher);
        self.worker = Some(std::thread::spawn(move || handle_rule(&setting, &matcher, up_to)));
    }

    fn look(&mut self, setting: &Setting, office: &mut Office) -> Result<(), Error> {
        if self.worker.as_ref().is_some_and(|worker| !worker.is_finished()) {
            return Ok(());
        }
        let ended = self.worker.take().map(JoinHandle::join);
        let failed = match ended {
            Some(Ok(Err(error))) => Some(error.to_string()),
            Some(Err(_)) => Some("its thread ended with a panic".to_owned()),
            _ => None,
        };
        if let Some(why) = failed {
            self.trouble(setting, why);
        }
        if self.not_before.is_some_and(|at| at > Instant::now()) {
            return Ok(());
        }
        let rule = &self.matcher.rule;
        let Some(handler) = views::handler(office.store(), &rule.name)? else {
            return begin(setting, office, rule);
        };
        let next = next_match(office, &self.matcher, self.clean.max(handler.cursor))?;
        match next.found {
            // The holder sends it or loses the rule: either wakes this watcher.
            Some(_) if handler.holder.is_some() => Ok(()),
            Some(_) => {
                self.work(setting, None);
                Ok(())
            }
            None => {
                self.clean = next.looked;
                self.pass(office, setting, PASSED_MAX)?;
                self.troubled = None;
                Ok(())
            }
        }
    }

    fn trouble(&mut self, setting: &Setting, why: String) {
        self.not_before = Some(Instant::now() + PERIOD);
        if self.troubled.as_ref() != Some(&why) {
            setting.say(&self.matcher.rule, None, What::Problem, Some(why.clone()), 0);
            self.troubled = Some(why);
        }
    }

    /// Advances the cursor, if at least `passed_min` messages that do not match have been passed.
    fn pass(&self, office: &mut Office, setting: &Setting, passed_min: u64) -> Result<(), Error> {
        let rule = &self.matcher.rule;
        let Some(handler) = views::handler(office.store(), &rule.name)? else { return Ok(()) };
        if handler.holder.is_some() || self.clean <= handler.cursor {
            return Ok(());
        }
        let behind = views::count_after(office.store(), handler.cursor)?;
        let after = views::count_after(office.store(), self.clean)?;
        match behind.saturating_sub(after) >= passed_min {
            true => move_on(setting, office, rule, self.clean),
            false => Ok(()),
        }
    }
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.watched.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_reports_a_limited_number_of_messages_per_minute() {
        let (pace, start) = (Pace::default(), Instant::now());
        let after = |seconds: u64| pace.wait(start + Duration::from_secs(seconds), 3);
        assert_eq!([after(0), after(10), after(20)], [None; 3]);
        assert_eq!([after(20), after(59)], [Some(Duration::from_secs(40)), Some(Duration::from_secs(1))]);
        assert_eq!(
            [after(60), after(61)],
            [None, Some(Duration::from_secs(9))],
            "the first is a minute old, the second is not"
        );
        assert_eq!([after(130), after(130), after(130)], [None; 3]);
    }
}
