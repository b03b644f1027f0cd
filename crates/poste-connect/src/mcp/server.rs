//! Serves a table over the protocol: lists in pages, calls on threads that may block, subscriptions of both revisions.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelledNotificationParam, CompleteRequestParams, CompleteResult,
    CustomRequest, CustomResult, ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResponse, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, RequestId, ResourceUpdatedNotificationParam, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{Peer, RoleServer, ServerHandler};
use tokio::runtime::Handle;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use super::table::{After, Answered, Call, Cancellation, News, Notice, Notices, Table};

/// Requests that every revision has, so they are never unknown. Those that only some revisions have do not exist for
/// clients of the others.
const METHODS: &[&str] = &[
    "completion/complete",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "server/discover",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
];

/// A server for one client. The transport calls [`hang_up`](Self::hang_up) when the client has hung up.
#[derive(Debug)]
pub struct Server<T> {
    inner: Arc<Inner<T>>,
}

impl<T> Clone for Server<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

struct Inner<T> {
    table: T,
    notices: Notices,
    /// Whether the client has hung up.
    over: watch::Sender<bool>,
    /// The client, after its first message.
    peer: watch::Sender<Option<Peer<RoleServer>>>,
    state: Mutex<State>,
    /// Whether the transport does the work after answers.
    does_after: bool,
    dues: Arc<Dues>,
}

/// Counts the pending work after answers. A later call waits for it, so that it sees what the client was shown.
#[derive(Debug, Default)]
struct Dues {
    count: Mutex<usize>,
    none_left: Condvar,
}

impl Dues {
    /// Timeout, because a client may send without ever reading.
    const PATIENCE: Duration = Duration::from_secs(1);

    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        drop(self.none_left.wait_timeout_while(self.count(), Self::PATIENCE, |count| *count > 0));
    }
}

/// Work after an answer. If dropped, it is never done.
pub(super) struct Due {
    after: Option<After>,
    dues: Arc<Dues>,
}

impl Due {
    fn new(after: After, dues: &Arc<Dues>) -> Self {
        *dues.count() += 1;
        Self { after: Some(after), dues: Arc::clone(dues) }
    }

    pub(super) fn run(mut self) {
        if let Some(after) = self.after.take() {
            after();
        }
    }
}

impl Drop for Due {
    fn drop(&mut self) {
        *self.dues.count() -= 1;
        self.dues.none_left.notify_all();
    }
}

#[derive(Default)]
struct State {
    /// The work after each answer, by its request.
    after: HashMap<RequestId, Due>,
    /// The number of subscriptions to each resource.
    subscribed: BTreeMap<String, usize>,
    /// Resources subscribed to with `resources/subscribe`.
    by_session: Vec<String>,
    is_watching: bool,
    tells_session: bool,
}

impl<T: std::fmt::Debug> std::fmt::Debug for Inner<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<T> Inner<T> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of resources one client may subscribe to.
const SUBSCRIPTIONS_MAX: usize = 1_000;

impl<T: Table> Server<T> {
    pub fn new(table: T) -> Self {
        let inner = Inner {
            table,
            notices: Notices::new(),
            over: watch::Sender::new(false),
            peer: watch::Sender::new(None),
            state: Mutex::default(),
            does_after: false,
            dues: Arc::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// For a transport that does the work after answers. Without it, that work is never done.
    pub(super) fn with_after(mut self) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.does_after = true;
        }
        self
    }

    /// Lets tests of the protocol publish changes outside of calls.
    pub fn notices(&self) -> &Notices {
        &self.inner.notices
    }

    /// The client has hung up: everything that waits stops waiting.
    pub fn hang_up(&self) {
        self.inner.over.send_replace(true);
    }

    /// The work to do after the answer to this request was written.
    pub(super) fn take_due(&self, id: &RequestId) -> Option<Due> {
        self.inner.state().after.remove(id)
    }

    fn seen(&self, peer: &Peer<RoleServer>) {
        if self.inner.peer.borrow().is_none() {
            self.inner.peer.send_replace(Some(peer.clone()));
        }
        if self.inner.table.watches_always() {
            self.watch();
        }
    }

    fn watch(&self) {
        if std::mem::replace(&mut self.inner.state().is_watching, true) {
            return;
        }
        let inner = Arc::clone(&self.inner);
        let subscribed = Arc::clone(&self.inner);
        let (runtime, closed) = (Handle::current(), inner.over.subscribe());
        let mut over = closed.clone();
        let over = Cancellation::after(&runtime, async move {
            let _ = over.wait_for(|over| *over).await;
        });
        let news = News {
            subscribed: Arc::new(move || subscribed.state().subscribed.keys().cloned().collect()),
            peer: inner.peer.subscribe(),
            over,
            closed,
            runtime,
            notices: inner.notices.clone(),
        };
        std::thread::spawn(move || inner.table.watch(&news));
    }

    /// Runs a part of the table on a thread that may block.
    async fn blocking<R: Send + 'static>(
        &self,
        context: RequestContext<RoleServer>,
        run: impl FnOnce(&T, &Call) -> Result<R, ErrorData> + Send + 'static,
    ) -> Result<R, ErrorData> {
        self.seen(&context.peer);
        let inner = Arc::clone(&self.inner);
        let call =
            Call { context, runtime: Handle::current(), over: inner.over.subscribe(), notices: inner.notices.clone() };
        let ran = tokio::task::spawn_blocking(move || {
            inner.dues.wait();
            run(&inner.table, &call)
        });
        let ran = ran.await;
        // A tool that panics must not end the session of the client.
        ran.map_err(|error| ErrorData::internal_error(format!("the call failed: {error}"), None))?
    }

    /// Like [`blocking`](Self::blocking); keeps the work after the answer for the transport.
    async fn answered<R: Send + 'static>(
        &self,
        context: RequestContext<RoleServer>,
        run: impl FnOnce(&T, &Call) -> Result<Answered<R>, ErrorData> + Send + 'static,
    ) -> Result<R, ErrorData> {
        let (id, cancelled) = (context.id.clone(), context.ct.clone());
        let Answered { answer, after } = self.blocking(context, run).await?;
        // The answer to a cancelled request is never written.
        if let Some(after) = after.filter(|_| self.inner.does_after && !cancelled.is_cancelled()) {
            let due = Due::new(after, &self.inner.dues);
            self.inner.state().after.insert(id, due);
        }
        Ok(answer)
    }

    /// Starts to watch these resources, unless they are watched already.
    fn begin_watch(&self, uris: &[String]) {
        let is_new = |uri: &&String| !self.inner.state().subscribed.contains_key(*uri);
        let new: Vec<String> = uris.iter().filter(is_new).cloned().collect();
        self.inner.table.begin_watch(&new);
    }

    /// Looks for changes from now on, and publishes at once what has changed since the watch began.
    async fn subscribe_to(&self, uris: &[String]) {
        for uri in uris {
            *self.inner.state().subscribed.entry(uri.clone()).or_default() += 1;
        }
        self.watch();
        let (inner, uris) = (Arc::clone(&self.inner), uris.to_vec());
        // The subscription stands even if this fails.
        let _ = tokio::task::spawn_blocking(move || {
            let changed = uris.into_iter().filter(|uri| inner.table.has_changed(uri));
            changed.for_each(|uri| inner.notices.updated(uri));
        })
        .await;
    }

    fn unsubscribe_from(&self, uris: &[String]) {
        let mut state = self.inner.state();
        for uri in uris {
            if let Some(count) = state.subscribed.get_mut(uri) {
                *count -= 1;
                if *count == 0 {
                    state.subscribed.remove(uri);
                    self.inner.table.end_watch(uri);
                }
            }
        }
    }

    /// Notifies a session of older revisions of changes to its resources and to lists, until it ends.
    fn tell_session(&self, peer: Peer<RoleServer>) {
        if std::mem::replace(&mut self.inner.state().tells_session, true) {
            return;
        }
        let (inner, mut notices) = (Arc::clone(&self.inner), self.inner.notices.sender.subscribe());
        tokio::spawn(async move {
            loop {
                let told = match notices.recv().await {
                    Ok(notice) => vec![notice],
                    Err(RecvError::Lagged(_)) => all_updated(&inner.state().by_session),
                    Err(RecvError::Closed) => return,
                };
                for notice in told {
                    let sent = match notice {
                        Notice::Updated(uri) => {
                            if !inner.state().by_session.contains(&uri) {
                                continue;
                            }
                            peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await
                        }
                        Notice::ToolsChanged => peer.notify_tool_list_changed().await,
                        Notice::PromptsChanged => peer.notify_prompt_list_changed().await,
                    };
                    if sent.is_err() {
                        return;
                    }
                }
            }
        });
    }
}

/// A slow subscriber missed changes, so all of its resources may have changed. Only that subscriber is notified:
/// publishing this to all could be too much at once again.
fn all_updated(uris: &[String]) -> Vec<Notice> {
    uris.iter().cloned().map(Notice::Updated).collect()
}

/// One page of a list, and a cursor that says where the next one starts.
fn page<I>(
    items: Vec<I>,
    size: usize,
    asked: Option<PaginatedRequestParams>,
) -> Result<(Vec<I>, Option<String>), ErrorData> {
    let start = match asked.and_then(|asked| asked.cursor) {
        None => 0,
        Some(cursor) => cursor
            .parse::<usize>()
            .ok()
            .filter(|start| (1..items.len()).contains(start))
            .ok_or_else(|| ErrorData::invalid_params("the cursor is not of this list", None))?,
    };
    let end = start.saturating_add(size.max(1));
    let next = (end < items.len()).then(|| end.to_string());
    Ok((items.into_iter().skip(start).take(size.max(1)).collect(), next))
}

impl<T: Table> ServerHandler for Server<T> {
    fn get_info(&self) -> ServerConfig {
        self.inner.table.config()
    }

    /// Refuses an unknown method, or a known one whose parameters could not be read.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method: String = request.method.chars().take(100).collect();
        Err(match METHODS.contains(&request.method.as_str()) {
            true => ErrorData::invalid_params(format!("{method} does not take these parameters"), None),
            false => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method {method}"), None),
        })
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.seen(&context.peer);
    }

    async fn on_cancelled(&self, cancelled: CancelledNotificationParam, _: NotificationContext<RoleServer>) {
        if let Some(id) = &cancelled.request_id {
            drop(self.take_due(id));
        }
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.inner.table.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn list_tools(
        &self,
        asked: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.seen(&context.peer);
        let (items, next_cursor) = page(self.inner.table.tools(), self.inner.table.page_size(), asked)?;
        Ok(ListToolsResult { next_cursor, ..ListToolsResult::with_all_items(items) })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.answered(context, move |table, call| table.call(request, call)).await
    }

    async fn list_resources(
        &self,
        asked: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let all = self.blocking(context, |table, call| table.resources(call)).await?;
        let (items, next_cursor) = page(all, self.inner.table.page_size(), asked)?;
        Ok(ListResourcesResult { next_cursor, ..ListResourcesResult::with_all_items(items) })
    }

    async fn list_resource_templates(
        &self,
        asked: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let (items, next_cursor) = page(self.inner.table.templates(), self.inner.table.page_size(), asked)?;
        Ok(ListResourceTemplatesResult { next_cursor, ..ListResourceTemplatesResult::with_all_items(items) })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.answered(context, move |table, call| table.read(request, call)).await
    }

    async fn list_prompts(
        &self,
        asked: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let (items, next_cursor) = page(self.inner.table.prompts(), self.inner.table.page_size(), asked)?;
        Ok(ListPromptsResult { next_cursor, ..ListPromptsResult::with_all_items(items) })
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.blocking(context, move |table, call| table.prompt(request, call)).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.inner.table.complete(request)
    }

    async fn set_level(&self, request: SetLevelRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.inner.table.set_level(request.level)
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !self.inner.table.can_watch(&request.uri) {
            let start: String = request.uri.chars().take(100).collect();
            return Err(ErrorData::resource_not_found(format!("there is no resource {start} to subscribe to"), None));
        }
        {
            let mut state = self.inner.state();
            if state.by_session.contains(&request.uri) {
                return Ok(());
            }
            if state.by_session.len() >= SUBSCRIPTIONS_MAX {
                return Err(ErrorData::invalid_params("too many subscriptions", None));
            }
            state.by_session.push(request.uri.clone());
        }
        self.begin_watch(std::slice::from_ref(&request.uri));
        self.seen(&context.peer);
        self.tell_session(context.peer);
        self.subscribe_to(&[request.uri]).await;
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let known = {
            let mut state = self.inner.state();
            let before = state.by_session.len();
            state.by_session.retain(|uri| *uri != request.uri);
            state.by_session.len() < before
        };
        if known {
            self.unsubscribe_from(&[request.uri]);
        }
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        if let Some(uris) = &mut accepted.resource_subscriptions {
            uris.retain(|uri| self.inner.table.can_watch(uri));
            uris.truncate(SUBSCRIPTIONS_MAX);
            // The subscription is acknowledged next: no change after that may be missed.
            self.begin_watch(uris);
        }
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.seen(&context.request_context().peer);
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        let (mut notices, mut over) = (self.inner.notices.sender.subscribe(), self.inner.over.subscribe());
        self.subscribe_to(&uris).await;
        let sink = context.sink().clone();
        loop {
            let notice = tokio::select! {
                notice = notices.recv() => notice,
                () = context.cancelled() => break,
                _ = over.wait_for(|over| *over) => break,
            };
            let told = match notice {
                Ok(notice) => vec![notice],
                Err(RecvError::Lagged(_)) => all_updated(&uris),
                Err(RecvError::Closed) => break,
            };
            for notice in told {
                // The sink does not send what was not subscribed to.
                let _ = match notice {
                    Notice::Updated(uri) => sink.notify_resource_updated(uri).await,
                    Notice::ToolsChanged => sink.notify_tool_list_changed().await,
                    Notice::PromptsChanged => sink.notify_prompt_list_changed().await,
                };
            }
        }
        self.unsubscribe_from(&uris);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(cursor: &str) -> Option<PaginatedRequestParams> {
        Some(PaginatedRequestParams::default().with_cursor(Some(cursor.to_owned())))
    }

    #[test]
    fn a_list_is_read_page_by_page() {
        assert_eq!(page(vec![1, 2, 3], 2, None).unwrap(), (vec![1, 2], Some("2".to_owned())));
        assert_eq!(page(vec![1, 2, 3], 2, asked("2")).unwrap(), (vec![3], None));
        assert_eq!(page(Vec::<u8>::new(), 2, None).unwrap(), (vec![], None));
        for wrong in ["3", "-1", "x", "0", "18446744073709551616"] {
            assert!(page(vec![1, 2, 3], 2, asked(wrong)).is_err(), "{wrong}");
        }
    }
}
