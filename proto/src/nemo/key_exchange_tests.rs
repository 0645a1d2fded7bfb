//! Exchanges of keys between the real engines, with losses, crashes and full disks at every step.

mod scripts;
mod seeded;
mod world;
