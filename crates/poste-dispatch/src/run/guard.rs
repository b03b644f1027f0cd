//! Renews the leases of a run while its program runs.

use std::time::Duration;

use poste_core::fold::Claimed;
use poste_core::log::{Author, Proof, Via};
use poste_core::office::Office;
use poste_core::store::processes;
use poste_core::views::{Holder, Standing};
use poste_core::{Error, Timestamp, limits};
use poste_run::{Watch, Watcher};
use poste_verbs::actions::Carrier;
use poste_verbs::leases::Lease;

use super::folder::{About, RunFolder};

/// How often it checks; more often if the lease is short.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_AT_LEAST: Duration = Duration::from_millis(50);
/// Maximum time it takes to end everything, in addition to the grace period.
const ENDING_MS: i64 = 2_000;

/// The length of its leases, their start by the boot clock, and the grace period of its program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub lease_ms: i64,
    pub boot_ms: i64,
    pub grace_ms: i64,
}

pub(crate) struct Guard<'a> {
    pub office: &'a mut Office,
    carrier: &'a Carrier,
    holder: Holder,
    open: Vec<Lease>,
    given_back: usize,
    lost: usize,
    lease_ms: i64,
    grace_ms: i64,
    seen: Option<i64>,
    folder: &'a RunFolder,
    about: About,
    /// Why the program was ended.
    pub why: Option<String>,
    /// Release its other messages without counting an attempt.
    pub gives_back: bool,
}

impl<'a> Guard<'a> {
    pub(crate) fn new(
        office: &'a mut Office,
        carrier: &'a Carrier,
        holder: Holder,
        claimed: &Claimed,
        terms: Terms,
        (folder, about): (&'a RunFolder, About),
    ) -> Self {
        let Terms { lease_ms, boot_ms, grace_ms } = terms;
        let open = claimed.items.iter().map(|item| Lease {
            message: item.number,
            token: Some(claimed.token),
            lease_ms: Some(lease_ms),
            least_ms: lease_ms * 2 / 3,
            until: item.lease_until,
            boot_until_ms: boot_ms.saturating_add(lease_ms),
        });
        Self {
            office,
            carrier,
            holder,
            open: open.collect(),
            given_back: 0,
            lost: 0,
            lease_ms,
            grace_ms,
            seen: None,
            folder,
            about,
            why: None,
            gives_back: false,
        }
    }

    /// The length of the leases of a claim made at this time.
    pub(crate) fn lease_ms(claimed: &Claimed, at: Timestamp) -> i64 {
        let length = claimed.items.iter().map(|item| item.lease_until.since_ms(at)).min();
        length.unwrap_or(limits::LEASE_MS_DEFAULT).clamp(limits::LEASE_MS_MIN, limits::LEASE_MS_MAX)
    }

    pub(crate) fn look_every(&self) -> Duration {
        let sixth = Duration::from_millis(u64::try_from(self.lease_ms / 6).unwrap_or_default());
        sixth.clamp(LOOK_AT_LEAST, LOOK)
    }

    /// How long before the end of a lease that cannot be renewed the program is ended: it must have ended before
    /// another run may start.
    fn margin_ms(&self) -> i64 {
        self.grace_ms.saturating_add(ENDING_MS).min(self.lease_ms / 3)
    }

    /// Checks what is still held, and renews its leases.
    fn keep(&mut self) -> Result<(), Error> {
        self.office.store().check_identity()?;
        let version = self.office.store().data_version()?;
        let kept = self.keep_open(self.seen != Some(version));
        self.carrier.carry_out(self.office);
        kept?;
        self.seen = Some(version);
        Ok(())
    }

    fn keep_open(&mut self, changed: bool) -> Result<(), Error> {
        let Holder { agent, run, .. } = &self.holder;
        let by = Author { actor: agent.clone(), session: Some(run.clone()), via: Via::Dispatch, proof: Proof::None };
        let mut index = 0;
        while let Some(own) = self.open.get_mut(index) {
            let standing = match changed {
                true => self.holder.standing(self.office.store(), own.message)?,
                false => Standing::Held,
            };
            match standing {
                Standing::Held => match own.keep(self.office, &by) {
                    Err(Error::Rejected(_)) => self.lost += 1,
                    kept => {
                        kept?;
                        index += 1;
                        continue;
                    }
                },
                Standing::Finished => {}
                Standing::GivenBack => self.given_back += 1,
                Standing::Lost => self.lost += 1,
            }
            self.open.remove(index);
        }
        Ok(())
    }

    /// Whether a lease may end before it can be renewed.
    fn is_running_out(&self) -> bool {
        self.open.iter().any(|own| own.left_ms(self.office).map_or(true, |left_ms| left_ms < self.margin_ms()))
    }
}

impl Watcher for Guard<'_> {
    fn started(&mut self, pid: u32) {
        self.about.program = Some(processes::written_down(pid));
        // Only for people: ending the program does not depend on it.
        let _ = self.folder.write_about(&self.about);
    }

    fn look(&mut self, _: Duration) -> Watch {
        match self.keep() {
            Err(Error::Replaced(_)) => {
                self.why = Some("the office was deleted or replaced".to_owned());
                return Watch::End;
            }
            // Busy, or a full disk: there is time to retry.
            Err(error) if self.is_running_out() => {
                self.why = Some(format!("the lease could not be renewed: {error}"));
                return Watch::End;
            }
            Err(_) => return Watch::Continue,
            Ok(()) => {}
        }
        // A program that finished everything may still clean up; one that lost a message may not continue. Which of
        // several messages it works on is unknown, so it continues only if it gave back the others itself.
        if self.lost > 0 || self.open.is_empty() && self.given_back > 0 {
            self.gives_back = !self.open.is_empty();
            self.why = Some(match self.gives_back {
                true => "it lost another of its messages".to_owned(),
                false => "the lease was lost".to_owned(),
            });
            return Watch::End;
        }
        Watch::Continue
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use poste_core::Address;
    use poste_core::fold::Effect;
    use poste_core::log::{Intent, Register, RunStart, Send};
    use poste_core::office::Place;
    use poste_core::store::Options;
    use poste_core::store::clock::{Boot, Clock};
    use poste_core::text::{Name, Session};

    use super::*;

    const LEASE_MS: i64 = 600_000;

    /// How far the wall clock and the boot clock have advanced.
    #[derive(Debug)]
    struct Hands(Mutex<(i64, i64)>);

    impl Clock for Hands {
        fn wall(&self) -> Timestamp {
            Timestamp::from_ms(1_800_000_000_000 + self.0.lock().unwrap().0)
        }

        fn boot(&self) -> Boot {
            Boot { id: "boot".to_owned(), ms: 5_000 + self.0.lock().unwrap().1 }
        }
    }

    fn say(office: &mut Office, who: &str, session: Option<&Session>, intent: Intent) -> Effect {
        let author =
            Author { actor: who.parse().unwrap(), session: session.cloned(), via: Via::Dispatch, proof: Proof::None };
        let proposal = office.proposal(&author, intent, None);
        poste_config::propose(office, &proposal).unwrap().verdict.accepted().unwrap()
    }

    #[test]
    fn a_wall_clock_set_back_does_not_lengthen_a_lease() {
        let folder = tempfile::tempdir().unwrap();
        let hands = Arc::new(Hands(Mutex::new((0, 0))));
        let clock: Arc<dyn Clock> = hands.clone();
        let place = Place { path: folder.path().join(".poste"), clock, options: Options::default() };
        place.create().unwrap();
        let mut office = place.open().unwrap();
        for name in ["lead", "worker"] {
            say(&mut office, name, None, Intent::Register(Register::default()));
        }
        let agent: Name = "worker".parse().unwrap();
        let mail = Send::plain("question".parse().unwrap(), vec![Address::Agent(agent.clone())]);
        let number = say(&mut office, "lead", None, Intent::Send(mail)).message().unwrap();
        let run: Session = "r1".parse().unwrap();
        let supervisor = processes::written_down(std::process::id());
        let about = About {
            run: run.clone(),
            agent: agent.clone(),
            messages: vec![number],
            runner: String::new(),
            supervisor: supervisor.clone(),
            program: None,
            started_at: office.wall(),
        };
        let (run_folder, _held) = RunFolder::create(&place.path, &about).unwrap();
        let start = RunStart {
            run: run.clone(),
            messages: vec![number],
            lease_ms: Some(LEASE_MS),
            limit: None,
            runner: String::new(),
            host: "here".to_owned(),
            supervisor,
        };
        let boot_ms = office.boot().ms;
        let taken = say(&mut office, "worker", Some(&run), Intent::RunStart(start));
        let Effect::Claimed(claimed) = taken else { panic!("{taken:?}") };
        let carrier = Carrier::default();
        let holder = Holder { agent, run, token: claimed.token };
        let terms = Terms { lease_ms: LEASE_MS, boot_ms, grace_ms: 1_000 };
        let mut guard = Guard::new(&mut office, &carrier, holder, &claimed, terms, (&run_folder, about));
        assert!(!guard.is_running_out());

        // One second of the lease is left, and the wall clock is set back to just after its start.
        *hands.0.lock().unwrap() = (1, LEASE_MS - 1_000);
        let before = guard.office.head().unwrap().position;
        assert!(guard.is_running_out());
        guard.keep().unwrap();
        assert!(guard.office.head().unwrap().position > before, "it is extended in time");
        assert!(!guard.is_running_out());
    }
}
