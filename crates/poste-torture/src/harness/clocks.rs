//! Clocks that go back an hour, stand still, or leap three hours or a year. The log's time never goes back, leases are
//! extended or expire as promised, and a stale token is refused.
//!
//! Here, the program reads its clocks from `POSTE_TEST_CLOCK` and `POSTE_TEST_BOOT`, so every command has its own time.

use crate::check;
use crate::desk::{Desk, Run};
use crate::rig::{Program, Result, Rig, Tally};

const REFUSED: i32 = 4;
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const YEAR: i64 = 365 * 24 * HOUR;
const START: i64 = 1_800_000_000;

/// Both clocks, in seconds after the start.
#[derive(Debug, Clone, Copy)]
struct Hands {
    wall: i64,
    boot: i64,
}

struct Trial<'a> {
    program: &'a Program,
    tally: &'a Tally,
    desk: Desk,
    acknowledged: Vec<String>,
    hands: Hands,
}

pub(crate) fn run(rig: &Rig, tally: &Tally) -> Result {
    let desk = Desk::clean(rig.memory.join("clocks"))?;
    let hands = Hands { wall: 0, boot: 1_000 };
    let mut trial = Trial { program: &rig.tortured.poste, tally, desk, acknowledged: Vec::new(), hands };
    for args in [&["init"][..], &["register", "lead"], &["register", "a", "--role", "worker"]] {
        trial.must(args)?;
    }
    trial.must(&["register", "b", "--role", "worker"])?;
    tally.expect(8);
    trial.goes_back_an_hour()?;
    trial.stands_still()?;
    trial.lease_runs_out()?;
    trial.leaps_three_hours()?;
    trial.leaps_a_year()?;
    trial.goes_back_a_year()?;
    if let Err(broken) = check::sound(&trial.desk.office(), &trial.acknowledged) {
        tally.violation(format!("after all, {broken}"));
    }
    Ok(())
}

impl Trial<'_> {
    fn run(&self, args: &[&str]) -> Result<Run> {
        let wall = poste_core::Timestamp::from_ms((START + self.hands.wall) * 1_000).to_string();
        let mut program = self.program.clone();
        program.env.push(("POSTE_TEST_CLOCK", wall));
        program.env.push(("POSTE_TEST_BOOT", (self.hands.boot * 1_000).to_string()));
        self.desk.run(&program, args)
    }

    /// Expects success. A failure is a violation, but the story continues.
    fn must(&mut self, args: &[&str]) -> Result<Run> {
        let run = self.run(args)?;
        self.tally.check(run.is_ok(), || format!("{:?}: {} ended with {}", self.hands, args.join(" "), run.told()));
        Ok(run)
    }

    fn send(&mut self, id: &str, kind: &str) -> Result<String> {
        let run = self.must(&["send", "role:worker", "work", "--type", kind, "--as", "lead", "--id", id, "--json"])?;
        self.acknowledged.push(id.to_owned());
        Ok(run.answer().map(|answer| answer["number"].to_string()).unwrap_or_default())
    }

    fn state(&mut self, number: &str) -> Result<String> {
        let run = self.must(&["track", number, "--json"])?;
        let answer = run.answer().unwrap_or_default();
        Ok(answer["deliveries"][0]["state"].as_str().unwrap_or_default().to_owned())
    }

    /// Sets the wall clock without letting time pass.
    fn set_wall(&mut self, by: i64) {
        self.hands.wall += by;
    }

    /// Lets time pass on both clocks.
    fn pass(&mut self, seconds: i64) {
        self.hands.wall += seconds;
        self.hands.boot += seconds;
    }

    fn goes_back_an_hour(&mut self) -> Result {
        self.send("before", "message")?;
        self.set_wall(-HOUR);
        self.hands.boot += 5;
        self.send("an-hour-back", "message")?;
        self.set_wall(HOUR);
        self.tally.point();
        Ok(())
    }

    /// A wall clock that does not move while the machine runs.
    fn stands_still(&mut self) -> Result {
        for n in 0..3 {
            self.hands.boot += 60;
            self.send(&format!("frozen-{n}"), "message")?;
        }
        self.hands.wall = self.hands.boot - 1_000;
        self.tally.point();
        Ok(())
    }

    /// The lease expires, another agent claims the work, and the first one returns with its old token.
    fn lease_runs_out(&mut self) -> Result {
        self.pass(MINUTE);
        let number = self.send("leased", "directive")?;
        let claimed = self.must(&["claim", &number, "--lease", "10m", "--as", "a", "--json"])?;
        let token = claimed.answer().map(|answer| answer["token"].to_string()).unwrap_or_default();
        self.pass(HOUR);
        // The lease has expired, and so has the delay before the next attempt.
        let second = self.run(&["claim", &number, "--as", "b", "--json"])?;
        self.tally.check(second.is_ok(), || format!("an hour after its lease, a claim ended with {}", second.told()));
        let late = self.run(&["done", &number, "--token", &token, "--as", "a", "--json"])?;
        self.tally.check(late.is_documented(), || format!("a late done ended with {}", late.told()));
        let state = self.state(&number)?;
        self.tally.check(state == "claimed", || format!("a stale token made it {state}"));
        if let Some(fresh) = second.answer().map(|answer| answer["token"].to_string()) {
            self.must(&["done", &number, "--token", &fresh, "--as", "b"])?;
        }
        self.tally.point();
        Ok(())
    }

    /// A leap of less than a day is accepted, and leases are extended.
    fn leaps_three_hours(&mut self) -> Result {
        let number = self.send("before-the-leap", "directive")?;
        self.must(&["claim", &number, "--lease", "10m", "--as", "a"])?;
        self.set_wall(3 * HOUR);
        self.send("after-the-leap", "message")?;
        let state = self.state(&number)?;
        self.tally.check(state == "claimed", || format!("a leap of the clock made a fresh claim {state}"));
        self.must(&["done", &number, "--as", "a"])?;
        self.tally.point();
        Ok(())
    }

    /// A leap of a year must be accepted by a person.
    fn leaps_a_year(&mut self) -> Result {
        self.set_wall(YEAR);
        let refused = self.run(&["send", "a", "from the future", "--as", "lead", "--id", "future"])?;
        self.tally
            .check(refused.code == Some(REFUSED), || format!("a year ahead, a send ended with {}", refused.told()));
        let reader = self.run(&["inbox", "--as", "a"])?;
        self.tally.check(reader.is_ok(), || format!("a year ahead, a reader ended with {}", reader.told()));
        self.must(&["clock", "accept", "--as", "lead"])?;
        self.send("accepted", "message")?;
        self.tally.point();
        Ok(())
    }

    fn goes_back_a_year(&mut self) -> Result {
        self.set_wall(-YEAR);
        self.hands.boot += MINUTE;
        self.send("back-again", "message")?;
        self.tally.point();
        Ok(())
    }
}
