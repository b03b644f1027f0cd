//! Many real processes on one office: nothing is lost, nobody is told "busy", one wins, everybody wakes.

mod archiving;
mod backup;
mod common;
mod configuring;
mod creating;
mod deciding;
mod demo;
mod doctor;
mod dying;
mod racing;
mod redacting;
mod searching;
mod sending;
mod waiting;
