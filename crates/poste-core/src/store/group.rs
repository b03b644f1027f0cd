//! Group commit: whoever writes much shares one sync among all who wait.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::LocalLog;
use crate::error::Error;
use crate::fold::Outcome;
use crate::log::{Log, Sealed};

/// At most this many proposals share one transaction.
const BATCH_MAX: usize = 256;
/// At most this many wait before the next one blocks: back pressure instead of memory.
const QUEUE_MAX: usize = 1_024;

struct Waiting {
    sealed: Sealed,
    answer: SyncSender<Result<Outcome, Arc<Error>>>,
}

/// A writer thread that commits everything that waits in one transaction. Clone [`Submitter`]s freely.
#[derive(Debug)]
pub struct GroupCommit {
    submitter: Option<Submitter>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Clone)]
pub struct Submitter {
    queue: SyncSender<Waiting>,
}

impl Submitter {
    /// Blocks until the proposal is durable and decided.
    pub fn submit(&self, sealed: Sealed) -> Result<Outcome, Arc<Error>> {
        let id = sealed.envelope.id.clone();
        let gone = || Arc::new(Error::Unknown { ids: vec![id.clone()], cause: "the writer has stopped".to_owned() });
        let (answer, answered) = sync_channel(1);
        self.queue.send(Waiting { sealed, answer }).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }
}

impl GroupCommit {
    pub fn start(log: LocalLog) -> Self {
        let (queue, waiting) = sync_channel(QUEUE_MAX);
        let thread = std::thread::spawn(move || run(log, &waiting));
        Self { submitter: Some(Submitter { queue }), thread: Some(thread) }
    }

    pub fn submitter(&self) -> Submitter {
        self.submitter.clone().expect("present until dropped")
    }
}

impl Drop for GroupCommit {
    /// Ends once every submitter is gone and everything that waited is answered.
    fn drop(&mut self) {
        self.submitter = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(mut log: LocalLog, waiting: &Receiver<Waiting>) {
    while let Ok(first) = waiting.recv() {
        // Whatever came while the last commit was syncing goes into this one; nobody waits for company.
        let mut batch = vec![first];
        while batch.len() < BATCH_MAX
            && let Ok(next) = waiting.try_recv()
        {
            batch.push(next);
        }
        let (proposals, answers): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|waiting| (waiting.sealed, waiting.answer)).unzip();
        match log.append(proposals) {
            Ok(outcomes) => {
                for (answer, outcome) in answers.into_iter().zip(outcomes) {
                    let _ = answer.send(Ok(outcome));
                }
            }
            Err(error) => {
                // The same trouble for all of them, told as what it is.
                let error = Arc::new(error);
                for answer in answers {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }
}
