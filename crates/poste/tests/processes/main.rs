//! Many real processes on one office: nothing is lost, nobody is told "busy", one wins, everybody wakes.

mod archiving;
mod backup;
mod common;
mod configuring;
mod contexts;
mod creating;
mod deciding;
mod demo;
mod doctor;
mod dying;
mod examples;
mod gates;
mod guarding;
mod handing_over;
mod hook_plugin;
mod hook_waiting;
mod hooking;
mod negotiation;
mod racing;
mod redacting;
mod reserving;
mod run_agent;
mod searching;
mod sending;
mod waiting;
mod waking;
