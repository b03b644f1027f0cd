//! What a server has to offer. A product brings one table, a test of the protocol may bring another.

use std::fmt;
use std::sync::Arc;

use poste_core::store::Interrupt;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CustomNotification, ErrorData,
    GetPromptRequestParams, GetPromptResponse, LoggingLevel, ProgressNotificationParam, Prompt,
    ReadResourceRequestParams, ReadResourceResponse, Resource, ResourceTemplate, ServerConfig, ServerNotification,
    Tool,
};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;

/// Tools, resources and prompts. Everything that takes a [`Call`] runs on a thread of its own and may block.
pub trait Table: Send + Sync + 'static {
    /// Name, version, capabilities and instructions.
    fn config(&self) -> ServerConfig;

    fn tools(&self) -> Vec<Tool>;

    /// Runs a tool. A tool that fails answers so, with words for the model; an error is for a call no tool can answer.
    fn call(&self, request: CallToolRequestParams, call: &Call) -> Result<Answered<CallToolResponse>, ErrorData>;

    fn resources(&self, _call: &Call) -> Result<Vec<Resource>, ErrorData> {
        Ok(Vec::new())
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    fn read(
        &self,
        request: ReadResourceRequestParams,
        _call: &Call,
    ) -> Result<Answered<ReadResourceResponse>, ErrorData> {
        Err(ErrorData::resource_not_found(format!("there is no resource {}", request.uri), None))
    }

    fn prompts(&self) -> Vec<Prompt> {
        Vec::new()
    }

    fn prompt(&self, request: GetPromptRequestParams, _call: &Call) -> Result<GetPromptResponse, ErrorData> {
        Err(ErrorData::invalid_params(format!("there is no prompt {}", request.name), None))
    }

    fn complete(&self, _request: CompleteRequestParams) -> Result<CompleteResult, ErrorData> {
        Ok(CompleteResult::default())
    }

    fn set_level(&self, _level: LoggingLevel) -> Result<(), ErrorData> {
        Err(ErrorData::new(rmcp::model::ErrorCode::METHOD_NOT_FOUND, "logging/setLevel", None))
    }

    /// Entries of one page of a list.
    fn page_size(&self) -> usize {
        50
    }

    /// Whether [`watch`](Self::watch) is to run from the start, not only once somebody subscribed.
    fn watches_always(&self) -> bool {
        false
    }

    /// Whether this names a resource that can be subscribed to, by its form alone. It runs where no other message is
    /// looked at meanwhile, so it must not block.
    fn can_watch(&self, _uri: &str) -> bool {
        true
    }

    /// Somebody is about to subscribe to these resources: changes count from now on. It must not block, either.
    fn begin_watch(&self, _uris: &[String]) {}

    /// Whether a resource changed since it was begun to be watched, or since this was asked last.
    fn has_changed(&self, _uri: &str) -> bool {
        false
    }

    /// Nobody is subscribed to this resource any more. It must not block.
    fn end_watch(&self, _uri: &str) {}

    /// Tells of changes until [`News::is_over`]; it has a thread of its own.
    fn watch(&self, _news: &News) {}
}

/// What is done once an answer was written, and only then: a client that went away before was shown nothing.
pub type After = Box<dyn FnOnce() + Send>;

/// An answer, and what follows it.
pub struct Answered<T> {
    pub answer: T,
    pub after: Option<After>,
}

impl<T> From<T> for Answered<T> {
    fn from(answer: T) -> Self {
        Self { answer, after: None }
    }
}

impl<T: fmt::Debug> fmt::Debug for Answered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answered").field("answer", &self.answer).field("after", &self.after.is_some()).finish()
    }
}

/// One request, as the table sees it.
#[derive(Debug)]
pub struct Call {
    pub(super) context: RequestContext<RoleServer>,
    pub(super) runtime: Handle,
    pub(super) over: watch::Receiver<bool>,
    pub(super) notices: Notices,
}

impl Call {
    /// Nobody waits for the answer any more.
    pub fn is_cancelled(&self) -> bool {
        self.context.ct.is_cancelled() || *self.over.borrow()
    }

    /// Raised when nobody waits for the answer any more, for whoever would not notice by itself.
    pub fn cancellation(&self) -> Cancellation {
        let (token, mut over) = (self.context.ct.clone(), self.over.clone());
        Cancellation::after(&self.runtime, async move {
            tokio::select! {
                () = token.cancelled() => {}
                _ = over.wait_for(|over| *over) => {}
            }
        })
    }

    /// Tells how far it is, if the client asked for that.
    pub fn progress(&self, done: f64, total: Option<f64>, message: &str) {
        let Some(token) = self.context.meta.get_progress_token() else { return };
        let mut progress = ProgressNotificationParam::new(token, done);
        progress.total = total;
        progress.message = Some(message.to_owned());
        // A client that cannot be told has gone, which the carrier notices by itself.
        let _ = tell(&self.runtime, &self.over, self.context.peer.notify_progress(progress));
    }

    /// The client and its request, for what the protocol can do beyond this.
    pub fn context(&self) -> &RequestContext<RoleServer> {
        &self.context
    }

    /// Runs what the protocol has to be waited for.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    pub fn notices(&self) -> &Notices {
        &self.notices
    }
}

/// An interrupt that is raised once something has happened, or once nobody waits for that any more.
#[derive(Debug)]
pub struct Cancellation {
    interrupt: Interrupt,
    task: AbortHandle,
}

impl Cancellation {
    pub(super) fn after(runtime: &Handle, end: impl Future<Output = ()> + Send + 'static) -> Self {
        /// Also when the runtime ends before.
        struct Raise(Interrupt);
        impl Drop for Raise {
            fn drop(&mut self) {
                self.0.raise();
            }
        }
        let interrupt = Interrupt::default();
        let raise = Raise(interrupt.clone());
        let task = runtime.spawn(async move {
            end.await;
            drop(raise);
        });
        Self { interrupt, task: task.abort_handle() }
    }

    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}

impl Drop for Cancellation {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until something was told, or until nobody is there to be told: a carrier that waits for its last calls to end takes
/// nothing from them any more, and both would wait for each other.
fn tell<F: Future>(runtime: &Handle, over: &watch::Receiver<bool>, told: F) -> Option<F::Output> {
    let mut over = over.clone();
    runtime.block_on(async {
        tokio::select! {
            told = told => Some(told),
            _ = over.wait_for(|over| *over) => None,
        }
    })
}

/// Something that a client may have asked to be told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Notice {
    Updated(String),
    ToolsChanged,
    PromptsChanged,
}

/// Where changes are told; whoever subscribed to them hears of it, in the way of its revision.
#[derive(Debug, Clone)]
pub struct Notices {
    pub(super) sender: broadcast::Sender<Notice>,
}

impl Notices {
    /// For whoever is slow.
    pub const KEPT_MAX: usize = 256;

    pub(super) fn new() -> Self {
        Self { sender: broadcast::Sender::new(Self::KEPT_MAX) }
    }

    pub fn updated(&self, uri: impl Into<String>) {
        self.tell(Notice::Updated(uri.into()));
    }

    pub fn tools_changed(&self) {
        self.tell(Notice::ToolsChanged);
    }

    pub fn prompts_changed(&self) {
        self.tell(Notice::PromptsChanged);
    }

    /// Nobody listening is nobody to be told.
    fn tell(&self, notice: Notice) {
        let _ = self.sender.send(notice);
    }
}

/// What a watching table needs to know, and whom it tells.
pub struct News {
    pub(super) subscribed: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    pub(super) peer: watch::Receiver<Option<Peer<RoleServer>>>,
    pub(super) over: Cancellation,
    pub(super) closed: watch::Receiver<bool>,
    pub(super) runtime: Handle,
    pub(super) notices: Notices,
}

impl fmt::Debug for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("News").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}

impl News {
    pub fn is_over(&self) -> bool {
        self.over.interrupt().is_raised()
    }

    /// Raised when it is over.
    pub fn over(&self) -> &Interrupt {
        self.over.interrupt()
    }

    /// The resources somebody wants to hear of, now.
    pub fn subscribed(&self) -> Vec<String> {
        (self.subscribed)()
    }

    pub fn notices(&self) -> &Notices {
        &self.notices
    }

    /// Sends a notification that is no part of the protocol. False: it was not sent, for example because nobody is there yet.
    pub fn custom(&self, method: &str, params: serde_json::Value) -> bool {
        let Some(peer) = self.peer.borrow().clone() else { return false };
        let notification = CustomNotification::new(method, Some(params));
        let sent = peer.send_notification(ServerNotification::CustomNotification(notification));
        tell(&self.runtime, &self.closed, sent).is_some_and(|sent| sent.is_ok())
    }
}
