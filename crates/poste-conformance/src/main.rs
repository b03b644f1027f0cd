//! The server of `poste mcp` with another table: the tools, resources and prompts that the official conformance suite
//! calls.
//!
//! It listens on a free loopback port, prints its address, and ends when its stdin does.

#![allow(deprecated, reason = "the suite tests what older revisions have")]

mod asks;
mod fixture;

use std::io::{Read, Write};
use std::process::ExitCode;

use poste_connect::mcp::Server;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use fixture::Fixture;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0)))?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let server = Server::new(Fixture::new());
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        LocalSessionManager::default().into(),
        StreamableHttpServerConfig::default(),
    );
    let router = axum::Router::new().nest_service("/mcp", service);
    runtime.spawn(async move { axum::serve(listener, router).await });
    writeln!(std::io::stdout(), "{url}")?;
    // The parent process holds the other end.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    runtime.shutdown_background();
    Ok(())
}
