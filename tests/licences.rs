//! Every dependency, build and development included, may be used under a licence of `deny.toml`.
use std::process::Command;

use serde_json::Value;

fn allowed() -> Vec<String> {
    let text = include_str!("../deny.toml");
    let table: toml::Table = text.parse().unwrap();
    let list = table["licenses"]["allow"].as_array().unwrap();
    list.iter().map(|v| v.as_str().unwrap().into()).collect()
}

/// Whether an SPDX expression (`AND`, `OR`, parentheses; the old `/` is `OR`) can be met.
fn permitted(expression: &str, allowed: &[String]) -> bool {
    let text = expression.replace('/', " OR ");
    let (mut depth, mut splits) = (0, Vec::new());
    for operator in [" OR ", " AND "] {
        for (i, c) in text.char_indices() {
            depth += i32::from(c == '(') - i32::from(c == ')');
            if depth == 0 && text[i..].starts_with(operator) {
                splits.push(i);
            }
        }
        if let Some(&i) = splits.first() {
            let (left, right) = (&text[..i], &text[i + operator.len()..]);
            let (left, right) = (permitted(left, allowed), permitted(right, allowed));
            return if operator == " OR " {
                left || right
            } else {
                left && right
            };
        }
    }
    let text = text.trim();
    match text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
        Some(inner) => permitted(inner, allowed),
        None => allowed.iter().any(|a| a == text),
    }
}

#[test]
fn expressions_are_understood() {
    let allowed = ["MIT".into(), "Zlib".into()];
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(MIT OR GPL-3.0) AND Zlib", true),
        ("(MIT OR Zlib) AND GPL-3.0", false),
    ] {
        assert_eq!(permitted(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn licences_of_all_dependencies_are_allowed() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--all-features"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo metadata failed");
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 20, "only {} packages", packages.len());
    let allowed = allowed();
    let refused: Vec<String> = packages
        .iter()
        .filter(|p| !permitted(p["license"].as_str().unwrap_or(""), &allowed))
        .map(|p| format!("{} {}: {}", p["name"], p["version"], p["license"]))
        .collect();
    assert!(refused.is_empty(), "not in deny.toml: {refused:#?}");
}
