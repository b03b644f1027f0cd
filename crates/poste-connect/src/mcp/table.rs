//! What a server offers. Poste has one table; tests of the protocol may have others.

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

    /// Runs a tool. A tool that fails answers with text for the model; an error is for a call that no tool can answer.
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

    /// Maximum number of entries in one page of a list.
    fn page_size(&self) -> usize {
        50
    }

    /// Whether [`watch`](Self::watch) runs from the start, not only after the first subscription.
    fn watches_always(&self) -> bool {
        false
    }

    /// Whether a URI has the form of a resource that can be subscribed to. It must not block, because no other message
    /// is handled while it runs.
    fn can_watch(&self, _uri: &str) -> bool {
        true
    }

    /// Starts to watch these resources for a subscription: changes count from now on. It must not block, either.
    fn begin_watch(&self, _uris: &[String]) {}

    /// Whether a resource changed since its watch began, or since the last call of this.
    fn has_changed(&self, _uri: &str) -> bool {
        false
    }

    /// Stops watching a resource that has no subscription any more. It must not block.
    fn end_watch(&self, _uri: &str) {}

    /// Publishes changes until [`News::is_over`], on a thread of its own.
    fn watch(&self, _news: &News) {}
}

/// Work to do only after an answer was written: a client that hung up before was shown nothing.
pub type After = Box<dyn FnOnce() + Send>;

/// An answer, and the work after it.
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
    /// Whether the client has cancelled the call or hung up.
    pub fn is_cancelled(&self) -> bool {
        self.context.ct.is_cancelled() || *self.over.borrow()
    }

    /// Raised when the client has cancelled the call or hung up, for work that does not check by itself.
    pub fn cancellation(&self) -> Cancellation {
        let (token, mut over) = (self.context.ct.clone(), self.over.clone());
        Cancellation::after(&self.runtime, async move {
            tokio::select! {
                () = token.cancelled() => {}
                _ = over.wait_for(|over| *over) => {}
            }
        })
    }

    /// Reports progress, if the client asked for that.
    pub fn progress(&self, done: f64, total: Option<f64>, message: &str) {
        let Some(token) = self.context.meta.get_progress_token() else { return };
        let mut progress = ProgressNotificationParam::new(token, done);
        progress.total = total;
        progress.message = Some(message.to_owned());
        // If this fails, the client has hung up, which the transport notices by itself.
        let _ = tell(&self.runtime, &self.over, self.context.peer.notify_progress(progress));
    }

    /// The client and its request, for other features of the protocol.
    pub fn context(&self) -> &RequestContext<RoleServer> {
        &self.context
    }

    /// Waits for a future of the protocol.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    pub fn notices(&self) -> &Notices {
        &self.notices
    }
}

/// An interrupt that is raised when a future ends, or when this is dropped.
#[derive(Debug)]
pub struct Cancellation {
    interrupt: Interrupt,
    task: AbortHandle,
}

impl Cancellation {
    pub(super) fn after(runtime: &Handle, end: impl Future<Output = ()> + Send + 'static) -> Self {
        /// Raises the interrupt even if the runtime ends first.
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

/// Waits until a notification was sent or the client has hung up: a transport that waits for its last calls to end
/// takes nothing from them any more, so both would wait for each other.
fn tell<F: Future>(runtime: &Handle, over: &watch::Receiver<bool>, told: F) -> Option<F::Output> {
    let mut over = over.clone();
    runtime.block_on(async {
        tokio::select! {
            told = told => Some(told),
            _ = over.wait_for(|over| *over) => None,
        }
    })
}

/// A change that a client may have subscribed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Notice {
    Updated(String),
    ToolsChanged,
    PromptsChanged,
}

/// Where changes are published. Each subscriber is notified in the way of its revision.
#[derive(Debug, Clone)]
pub struct Notices {
    pub(super) sender: broadcast::Sender<Notice>,
}

impl Notices {
    /// Changes that are kept for a slow subscriber.
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

    /// Without a subscriber there is nothing to do.
    fn tell(&self, notice: Notice) {
        let _ = self.sender.send(notice);
    }
}

/// What a watching table needs: the subscribed resources, and where to publish changes.
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

    /// Raised when watching must end.
    pub fn over(&self) -> &Interrupt {
        self.over.interrupt()
    }

    /// The resources that are subscribed to now.
    pub fn subscribed(&self) -> Vec<String> {
        (self.subscribed)()
    }

    pub fn notices(&self) -> &Notices {
        &self.notices
    }

    /// Sends a notification that is not part of the protocol. False: it was not sent, for example because there is no
    /// client yet.
    pub fn custom(&self, method: &str, params: serde_json::Value) -> bool {
        let Some(peer) = self.peer.borrow().clone() else { return false };
        let notification = CustomNotification::new(method, Some(params));
        let sent = peer.send_notification(ServerNotification::CustomNotification(notification));
        tell(&self.runtime, &self.closed, sent).is_some_and(|sent| sent.is_ok())
    }
}
