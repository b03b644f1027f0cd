//! Many real processes on one office: nothing is lost, nobody is told "busy", one wins, everybody wakes.

mod archiving;
mod common;
mod creating;
mod demo;
mod dying;
mod racing;
mod redacting;
mod sending;
mod waiting;
