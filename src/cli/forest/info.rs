//! `roadloop forest info`.
use std::{fmt::Write as _, path::PathBuf};

use serde_json::json;

use super::Failure;
use crate::{cli::failure::say, stage::forest::Forest};

/// The command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The forest
    pub model: PathBuf,
    /// Writes JSON in place of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let forest = Forest::load(&args.model)?;
    let trees: Vec<_> = forest
        .trees
        .iter()
        .map(|t| json!({"nodes": t.nodes.len(), "leaves": t.leaves(), "levels": t.depth()}))
        .collect();
    let value = json!({"meta": forest.meta, "trees": trees});
    if args.json {
        let text = serde_json::to_string_pretty(&value).map_err(Failure::internal)?;
        return say(&(text + "\n"));
    }
    let meta = &forest.meta;
    let mut text = String::new();
    let line = |text: &mut String, key: &str, value: String| {
        let _ = writeln!(text, "{key:<16} {value}");
    };
    // Options as the file has them: one a line.
    for part in ["feature", "input", "recipe"] {
        if let Some(map) = value["meta"][part].as_object() {
            for (key, value) in map {
                line(&mut text, key, value.to_string().replace('"', ""));
            }
        }
    }
    line(&mut text, "program", meta.program.clone());
    line(&mut text, "images", meta.images.to_string());
    line(
        &mut text,
        "data digest",
        format!("{:016x}", meta.data_digest),
    );
    if let Some(p) = meta.progress {
        let state = format!("{} trees, {} levels of the next", p.trees, p.levels);
        line(&mut text, "unfinished", state);
    }
    line(&mut text, "void", meta.void.to_string());
    for (class, pixels) in meta.classes.iter().zip(&meta.class_pixels) {
        let [r, g, b] = class.colour;
        let about = format!("{:<14} {r},{g},{b}  {pixels} px", class.name);
        line(&mut text, &format!("class {}", class.index), about);
    }
    for (i, tree) in forest.trees.iter().enumerate() {
        let (nodes, leaves, levels) = (tree.nodes.len(), tree.leaves(), tree.depth());
        let about = format!("{nodes} nodes, {leaves} leaves, {levels} levels");
        line(&mut text, &format!("tree {i}"), about);
    }
    say(&text)
}
