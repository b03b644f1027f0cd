//! Power loss: every moment of recorded runs, and every kind of disk image that such a loss may leave.
//!
//! Each image must open, be sound, hold everything that was acknowledged before the loss, and accept the next record.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use poste_core::log::{Intent, Proof, Proposal, Register, Via};
use poste_core::office::{Place, Rules};
use poste_core::store::Options;
use poste_core::store::clock::{Clock as _, SystemClock};
use poste_core::store::schema::{CURRENT, Schema};
use poste_testkit::rng::Rng;

use crate::acts::{Act, Base, Bases, acts};
use crate::check::{self, Broken};
use crate::desk::{Desk, told};
use crate::disk::{Disk, Image, Kept, Loss, Op};
use crate::record;
use crate::rig::{Result, Rig, Tally, on_every_core};
use crate::strace;

/// Commands that run one after the other in one office.
struct Story {
    name: &'static str,
    base: Base,
    acts: &'static [&'static str],
}

const STORIES: &[Story] = &[
    Story { name: "birth", base: Base::Empty, acts: &["init", "register a", "register b", "send"] },
    Story { name: "day", base: Base::Office, acts: &["send", "blob", "claim", "done", "batch"] },
    Story { name: "checkpoint", base: Base::LongWal, acts: &["checkpoint", "send", "blob"] },
    Story { name: "archive", base: Base::Finished, acts: &["archive", "send", "redact"] },
    Story { name: "redact", base: Base::Finished, acts: &["redact", "send"] },
    Story {
        name: "coordination",
        base: Base::Coordinated,
        acts: &["context", "handoff", "accept", "reserve", "approve", "session"],
    },
    Story { name: "migrate", base: Base::Office, acts: &["send", "migrate"] },
];

/// How many of the newest unsynced writes are dropped, kept alone and torn, one by one.
const SINGLED_OUT: usize = 8;
/// How many random mixtures are tried at each cut.
const MIXTURES: usize = 3;
/// How many of a thousand images the short form checks.
const SHORT_PER_MILLE: u32 = 30;
const CASES_AT_ONCE: usize = 256;

/// One image and what must be in it.
struct Case<'a> {
    step: &'a Step,
    how: String,
    image: Image,
}

pub(crate) fn run(rig: &Rig, tally: &Tally) -> Result {
    run_stories(rig, tally, &[])
}

/// Runs only some stories, to catch a sabotage faster.
pub(crate) fn run_stories(rig: &Rig, tally: &Tally, wanted: &[&str]) -> Result {
    let folder = rig.memory.join("power");
    let bases = Bases::make(rig, &folder.join("bases"))?;
    let acts = acts(&folder.join("files"))?;
    let mut rng = rig.rng("power");
    for story in STORIES.iter().filter(|story| wanted.is_empty() || wanted.contains(&story.name)) {
        let desk = bases.copy(story.base, &folder.join("recorded"))?;
        let steps = record_story(rig, story, &acts, &desk, &folder)?;
        play(rig, tally, story, &bases, &steps, &mut rng)?;
    }
    Ok(())
}

/// One call of a recorded story, and what was promised once it was done.
struct Step {
    op: Op,
    at: String,
    acknowledged: Arc<Vec<String>>,
    made: bool,
    schema: Schema,
}

fn record_story(rig: &Rig, story: &Story, acts: &[Act], desk: &Desk, folder: &Path) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let (mut acknowledged, mut made) = (Arc::new(Vec::new()), story.base != Base::Empty);
    let mut schema = CURRENT;
    for name in story.acts {
        let act = find(acts, name)?;
        if act.migrates {
            schema = poste_testkit::next::LETS_IN_READERS;
        }
        for (number, op) in recorded(rig, desk, &act, folder)?.into_iter().enumerate() {
            if op == Op::Answer {
                Arc::make_mut(&mut acknowledged).extend(act.ids.iter().cloned());
                made |= act.name == "init";
            }
            let at = format!("{}: {name}, after call {number} ({})", story.name, told_op(&op));
            steps.push(Step { op, at, acknowledged: acknowledged.clone(), made, schema });
        }
    }
    Ok(steps)
}

/// Cuts the power after every step, in every way, and checks what is left.
fn play(rig: &Rig, tally: &Tally, story: &Story, bases: &Bases, steps: &[Step], rng: &mut Rng) -> Result {
    let folder = rig.memory.join("power");
    let check = |cases: &mut Vec<Case<'_>>| {
        tally.expect(cases.len());
        on_every_core(&std::mem::take(cases), tally, |core, case| {
            if let Err(violation) = check_case(case, &folder.join(format!("core-{core}")))? {
                tally.violation(format!("{}, {}: {violation}", case.step.at, case.how));
            }
            tally.image();
            Ok(())
        })
    };
    let mut disk = Disk::of_folder(&bases.path(story.base))?;
    let mut seen = BTreeSet::new();
    let mut cases = Vec::new();
    for step in steps {
        disk.apply(&step.op)?;
        for (how, loss) in losses(&disk, rng) {
            if rig.is_short() && !rng.chance(SHORT_PER_MILLE) {
                continue;
            }
            let image = disk.image(&loss);
            if seen.insert((image.digest(), step.acknowledged.len(), step.made)) {
                cases.push(Case { step, how, image });
            }
        }
        // Images are large, so they are checked in batches.
        if cases.len() >= CASES_AT_ONCE {
            check(&mut cases)?;
        }
        if tally.is_enough() {
            return Ok(());
        }
    }
    check(&mut cases)
}

fn find(acts: &[Act], name: &str) -> Result<Act> {
    if let Some(agent) = name.strip_prefix("register ") {
        let args = ["register", agent, "--json"].map(str::to_owned).to_vec();
        return Ok(Act { name: "register", base: Base::Office, args, input: None, ids: Vec::new(), migrates: false });
    }
    let act = acts.iter().find(|act| act.name == name).cloned();
    act.ok_or_else(|| format!("there is no command {name} to record"))
}

fn recorded(rig: &Rig, desk: &Desk, act: &Act, folder: &Path) -> Result<Vec<Op>> {
    let trace = folder.join("trace");
    let options = ["-xx", "-s", "1000000", "-e", record::TRACED];
    let run = strace::run(desk, act.program(&rig.tortured), act, &options, &trace)?;
    if !run.is_ok() {
        return Err(format!("{}: the recorded run ended with {}", act.name, run.told()));
    }
    let text = fs::read_to_string(&trace).map_err(|error| told(&trace, &error))?;
    let ops = record::read(&text, &desk.folder)?;
    if !ops.contains(&Op::Answer) {
        return Err(format!("{}: no answer was recorded", act.name));
    }
    Ok(ops)
}

fn told_op(op: &Op) -> String {
    match op {
        Op::MakeFolder(path) => format!("mkdir {}", path.display()),
        Op::Open(path) => format!("open {}", path.display()),
        Op::Write { path, at, bytes } => format!("{} bytes at {at} of {}", bytes.len(), path.display()),
        Op::Truncate { path, length } => format!("{} cut to {length}", path.display()),
        Op::Sync(path) => format!("sync of {}", path.display()),
        Op::Rename(from, to) => format!("{} renamed to {}", from.display(), to.display()),
        Op::Link(from, to) => format!("{} linked as {}", from.display(), to.display()),
        Op::Unlink(path) => format!("{} removed", path.display()),
        Op::Answer => "the answer".to_owned(),
    }
}

/// What may happen to everything that is not synced.
fn losses(disk: &Disk, rng: &mut Rng) -> Vec<(String, Loss)> {
    let mut losses = Vec::new();
    for names in [true, false] {
        let kept = if names { "names kept" } else { "names lost" };
        losses.push((format!("all kept, {kept}"), Loss::of(Kept::All, names)));
        losses.push((format!("all dropped, {kept}"), Loss::of(Kept::Nothing, names)));
        losses.push((format!("all striped, {kept}"), Loss::of(Kept::Striped, names)));
    }
    let nonsense = Loss { nonsense_shm: true, ..Loss::of(Kept::All, true) };
    losses.push(("all kept, nonsense in the shared memory".to_owned(), nonsense));
    let sectors = disk.pending_sectors();
    for (number, length) in sectors.iter().enumerate().skip(sectors.len().saturating_sub(SINGLED_OUT)) {
        let single = |rest, kept| Loss { changes: [(number, kept)].into(), ..Loss::of(rest, true) };
        losses.push((format!("write {number} dropped"), single(Kept::All, Kept::Nothing)));
        losses.push((format!("only write {number} kept"), single(Kept::Nothing, Kept::All)));
        for head in BTreeSet::from([1, length / 2, length.saturating_sub(1)]) {
            losses.push((format!("write {number} torn after {head}"), single(Kept::All, Kept::Head(head))));
        }
    }
    for _ in 0..MIXTURES {
        let kept = |rng: &mut Rng| match rng.below(4) {
            0 => Kept::Nothing,
            1 => Kept::Head(1 + rng.below(8)),
            2 => Kept::Striped,
            _ => Kept::All,
        };
        let changes = (0..sectors.len()).map(|number| (number, kept(rng))).collect();
        let loss = Loss { changes, ..Loss::of(Kept::All, rng.chance(500)) };
        losses.push(("a mixture".to_owned(), loss));
    }
    losses
}

/// Checks one image. The inner error is a violation.
fn check_case(case: &Case<'_>, folder: &Path) -> Result<Result> {
    let desk = Desk::clean(folder)?;
    case.image.write(&desk.folder).map_err(|error| told(&desk.folder, &error))?;
    match check::sound(&desk.office(), &case.step.acknowledged) {
        Ok(_) => {}
        // As long as no office was acknowledged, the next process creates or finishes it.
        Err(Broken::NoOffice(_)) if !case.step.made => {}
        Err(broken) => return Ok(Err(broken.to_string())),
    }
    Ok(goes_on(&desk.office(), case.step))
}

/// The next program creates what is missing and appends a record.
fn goes_on(office: &Path, step: &Step) -> Result {
    let options = Options { schema: step.schema, ..Options::default() };
    let place = Place { path: PathBuf::from(office), clock: Arc::new(SystemClock), options };
    let next = || -> std::result::Result<_, poste_core::Error> {
        if !step.made {
            place.create()?;
        }
        let mut office = place.open()?;
        office.propose(&registration()?, &Rules::none())
    };
    match next() {
        Ok(outcome) if outcome.position.is_some() => Ok(()),
        Ok(outcome) => Err(format!("the next record was refused: {:?}", outcome.verdict)),
        Err(error) => Err(format!("the next record failed: {error}")),
    }
}

fn registration() -> std::result::Result<Proposal, poste_core::Error> {
    let damaged = |error: poste_core::text::InvalidText| poste_core::Error::Damaged(error.to_string());
    let intent = Intent::Register(Register::default());
    Ok(Proposal {
        id: "after-the-loss".parse().map_err(damaged)?,
        actor: "survivor".parse().map_err(damaged)?,
        session: None,
        via: Via::Cli,
        proof: Proof::None,
        sent_at: SystemClock.wall(),
        intent,
        content: None,
    })
}
