//! The pictures of README, drawn from the results of the report, and that of docs/encryption.md.

use super::chart;
use super::contents::Contents;
use super::diagram;
use super::results_store::ResultsStore;
use anyhow::{Context, Result};
use std::path::Path;

/// The file, and the experiment whose charts it has.
const PICTURES: [(&str, &str); 2] = [("handover.svg", "nemo/handover"), ("throughput.svg", "nemo/throughput")];

/// The picture that needs no result.
const DIAGRAM: &str = "encryption.svg";

/// Draws the pictures that have a result into the folder; the files, and the experiments that have none.
pub(super) fn draw(store: &ResultsStore, folder: &Path) -> Result<(Vec<String>, Vec<&'static str>)> {
    let contents = Contents::read()?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let diagram = folder.join(DIAGRAM);
    std::fs::write(&diagram, diagram::encryption()).with_context(|| format!("cannot write {}", diagram.display()))?;
    let (mut drawn, mut missing) = (vec![diagram.display().to_string()], Vec::new());
    for (file, experiment) in PICTURES {
        let Some(result) = store.read(experiment) else {
            missing.push(experiment);
            continue;
        };
        let path = folder.join(file);
        chart::write(&path, &contents.charts(&result)?)?;
        drawn.push(path.display().to_string());
    }
    Ok((drawn, missing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;
    use serde_json::json;

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
    /// Drawn by `make demo`.
    const OF_DEMO: &str = "demo.svg";

    fn read(file: &str) -> String {
        std::fs::read_to_string(format!("{ROOT}{file}")).expect(file)
    }

    #[test]
    fn each_picture_of_the_readme_is_drawn_by_the_report_or_the_demo() {
        let text = read("README.md");
        let shown: Vec<&str> =
            text.split("docs/").skip(1).filter_map(|rest| rest.split_once(".svg")).map(|(name, _)| name).collect();
        assert!(shown.len() > 1, "{shown:?}");
        for name in shown {
            let file = format!("{name}.svg");
            let is_drawn = PICTURES.iter().any(|(picture, _)| *picture == file);
            assert!(is_drawn || file == OF_DEMO, "nothing draws docs/{file}");
        }
    }

    #[test]
    fn the_pictures_have_the_titles_that_the_report_would_write() {
        let contents = Contents::read().unwrap();
        for (file, experiment) in PICTURES {
            assert!(experiments::ALL.iter().any(|one| one.name == experiment));
            let charts = contents.charts(&json!({ "experiment": experiment, "rows": [], "summary": {} })).unwrap();
            let picture = read(&format!("docs/{file}"));
            let titles = picture.split("font-weight=\"bold\">").skip(1).filter_map(|rest| rest.split_once('<'));
            for (title, _) in titles {
                assert!(charts.iter().any(|chart| chart.title == title), "docs/{file}: '{title}' is drawn by nothing");
            }
        }
    }

    #[test]
    fn pictures_are_drawn_from_results_and_others_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = ResultsStore::open(&folder.path().join("results"), true).unwrap();
        let row = json!({ "kind": "planned", "one_way_delay_ms": 0, "gap_fine_ms": 1.5 });
        let result = json!({ "experiment": "nemo/handover", "rows": [row], "summary": {} });
        std::fs::write(store.result("nemo/handover"), result.to_string()).unwrap();
        let pictures = folder.path().join("pictures");
        let (drawn, missing) = draw(&store, &pictures).unwrap();
        assert_eq!((drawn.len(), missing), (2, vec!["nemo/throughput"]));
        let text = std::fs::read_to_string(pictures.join("handover.svg")).unwrap();
        assert!(text.contains("home agent 0 ms away"), "{text}");
    }
}
