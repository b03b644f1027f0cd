//! Many real processes on one office: nothing is lost, nobody is told "busy", one wins, everybody wakes.

mod common;
mod configuring;
mod creating;
mod demo;
mod dying;
mod racing;
mod sending;
mod waiting;
