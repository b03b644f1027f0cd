//! The commands that are tortured, and the offices they are tortured in.

use std::fs;
use std::path::{Path, PathBuf};

use crate::desk::{Desk, told};
use crate::rig::{Program, Programs, Result, Rig};

/// What the folder holds before the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Base {
    /// Nothing at all.
    Empty,
    /// An office with `a` and `b` and one directive, #1, for `b`.
    Office,
    /// The same, with a WAL so long that the next commit checkpoints it.
    LongWal,
    /// Everything is done, including #2, which has [`SECRET`] in its text and in a copied file; and the search index
    /// contains it.
    Finished,
    /// The same, archived.
    Archived,
    /// An office in which `a` and `b` share a context. `a` has offered `b` a handoff, #3, and asked it something, #4,
    /// and runs as the session `run`.
    Coordinated,
}

/// One command.
#[derive(Debug, Clone)]
pub(crate) struct Act {
    pub name: &'static str,
    pub base: Base,
    pub args: Vec<String>,
    /// What it reads on stdin.
    pub input: Option<PathBuf>,
    /// The ids of what it writes, which are acknowledged once it has answered.
    pub ids: Vec<String>,
    /// Run by the future program, which migrates first.
    pub migrates: bool,
}

impl Act {
    pub(crate) fn program<'a>(&self, programs: &'a Programs) -> &'a Program {
        if self.migrates { &programs.next } else { &programs.poste }
    }
}

/// Content that is too large for a row.
const BLOB_BYTES: usize = 200_000;
/// Two of these make the writer empty the WAL.
const WAL_BYTES_ALMOST: u64 = 490 * 1024;
const BATCH_LINES: usize = 10;
/// The content that is redacted. It must be nowhere in the office once the redaction was answered.
pub(crate) const SECRET: &str = "zanzibar";
/// The id of the record that redacts it.
pub(crate) const REDACTION: &str = "redact-1";

/// Creates the files that the commands read, and returns the table of commands.
///
/// A new command that writes needs a line here.
pub(crate) fn acts(folder: &Path) -> Result<Vec<Act>> {
    fs::create_dir_all(folder).map_err(|error| told(folder, &error))?;
    let file = |name: &str, bytes: Vec<u8>| -> Result<PathBuf> {
        let path = folder.join(name);
        fs::write(&path, bytes).map_err(|error| told(&path, &error))?;
        Ok(path)
    };
    let batch: String = (0..BATCH_LINES)
        .map(|n| {
            format!(
                "{{\"to\":\"b\",\"subject\":\"line {n}\",\"body\":\"{}\",\"id\":\"line-{n}\"}}\n",
                "y".repeat(2_000)
            )
        })
        .collect();
    let batch = file("batch.jsonl", batch.into_bytes())?;
    let batch_args = format!("send --batch {} --as a --json", batch.display());
    let batch_ids: Vec<String> = (0..BATCH_LINES).map(|n| format!("line-{n}")).collect();
    let body = file("blob.txt", vec![b'q'; BLOB_BYTES])?;
    let act = |name, base, args: &str, ids: &[&str]| Act {
        name,
        base,
        args: args.split(' ').map(str::to_owned).collect(),
        input: None,
        ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        migrates: false,
    };
    let redact = format!("redact 2 --reason slip --as a --id {REDACTION} --json");
    use Base::{Archived, Coordinated, Empty, Finished, LongWal, Office};
    Ok(vec![
        act("init", Empty, "init --json", &[]),
        act("send", Office, "send b news words --as a --id send-1 --json", &["send-1"]),
        Act { input: Some(body), ..act("blob", Office, "send b large - --as a --id blob-1 --json", &["blob-1"]) },
        act("claim", Office, "claim 1 --as b --id claim-1 --json", &["claim-1"]),
        act("done", Office, "done 1 --summary yes --as b --id done-1 --json", &["done-1"]),
        Act { ids: batch_ids.clone(), ..act("batch", Office, &batch_args, &[]) },
        Act { ids: batch_ids, ..act("checkpoint", LongWal, &batch_args, &[]) },
        act("archive", Finished, "archive --older 0s --as a --json", &[]),
        act("redact", Finished, &redact, &[REDACTION]),
        act("redact-archived", Archived, &redact, &[REDACTION]),
        act("context", Coordinated, "context append plan more --as b --id context-1 --json", &["context-1"]),
        act(
            "handoff",
            Coordinated,
            "handoff create b --task work --artifact file.txt --as a --id handoff-1 --json",
            &["handoff-1"],
        ),
        act("accept", Coordinated, "handoff accept 3 --check all --as b --id accept-1 --json", &["accept-1"]),
        act("reserve", Coordinated, "reserve src/** docs --as b --id reserve-1 --json", &["reserve-1"]),
        act("approve", Coordinated, "approve 4 --as b --id approve-1 --json", &["approve-1"]),
        act("session", Coordinated, "session close run --as a --id session-1 --json", &["session-1"]),
        Act { migrates: true, ..act("migrate", Office, "send b news words --as a --id next-1 --json", &["next-1"]) },
    ])
}

/// Creates each kind of office once; every point works on a copy.
pub(crate) struct Bases {
    folder: PathBuf,
}

impl Bases {
    pub(crate) fn make(rig: &Rig, folder: &Path) -> Result<Self> {
        let bases = Self { folder: folder.to_owned() };
        Desk::clean(bases.path(Base::Empty))?;
        let poste = &rig.sound.poste;
        let office = Desk::with_agents(bases.path(Base::Office), poste, &["a", "b"])?;
        office.must(poste, &["send", "b", "work", "please", "--type", "directive", "--as", "a"])?;
        let long = office.copy_to(bases.path(Base::LongWal))?;
        let filler = "x".repeat(3_000);
        while long.wal_bytes() < WAL_BYTES_ALMOST {
            long.must(poste, &["send", "b", "filler", &filler, "--as", "a"])?;
        }
        let finished = office.copy_to(bases.path(Base::Finished))?;
        finished.must(poste, &["done", "1", "--summary", "yes", "--as", "b"])?;
        let secret = format!("{SECRET} ").repeat(1_000);
        let attached = finished.folder.join("secret.txt");
        fs::write(&attached, &secret).map_err(|error| told(&attached, &error))?;
        finished.must(poste, &["send", "b", "secret", &secret, "--attach", "secret.txt", "--as", "a"])?;
        finished.must(poste, &["ack", "2", "--as", "b"])?;
        finished.must(poste, &["search", SECRET])?;
        let archived = finished.copy_to(bases.path(Base::Archived))?;
        archived.must(poste, &["archive", "--older", "0s", "--as", "a"])?;
        Self::coordinated(poste, &office.copy_to(bases.path(Base::Coordinated))?)?;
        Ok(bases)
    }

    fn coordinated(poste: &Program, office: &Desk) -> Result {
        let file = office.folder.join("file.txt");
        fs::write(&file, "something to hand over\n".repeat(1_000)).map_err(|error| told(&file, &error))?;
        office.must(poste, &["context", "create", "plan", "# Plan", "--as", "a"])?;
        let offer =
            ["handoff", "create", "b", "--task", "work", "--artifact", "file.txt", "--check", "read", "--as", "a"];
        office.must(poste, &offer)?;
        office.must(poste, &["ask", "b", "Go on?", "--as", "a"])?;
        office.must(poste, &["session", "start", "--name", "run", "--as", "a"])?;
        Ok(())
    }

    pub(crate) fn path(&self, base: Base) -> PathBuf {
        self.folder.join(format!("{base:?}"))
    }

    /// A fresh copy in the caller's folder.
    pub(crate) fn copy(&self, base: Base, to: &Path) -> Result<Desk> {
        Desk::at(self.path(base)).copy_to(to)
    }
}
