//! The OpenAPI document: complete, right, served, and a page to browse.

mod browser;
mod codes;
mod content;
mod served;
