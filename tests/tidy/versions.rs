//! One version: stated by the workspace, inherited by its packages, the same for npm.

use crate::source::Broken;

/// Places whose version is not the workspace's.
pub(crate) fn differing(
    workspace: &str,
    package_json: &str,
    manifests: &[(&str, String)],
) -> Vec<Broken> {
    let quoted = |line: &str, index: usize| line.split('"').nth(index).map(String::from);
    let line = workspace.lines().find(|line| line.starts_with("version = "));
    let Some(version) = line.and_then(|line| quoted(line, 1)) else {
        return vec![Broken::new("Cargo.toml", 0, "the workspace states no version")];
    };
    let mut broken = Vec::new();
    let line = package_json.lines().find(|line| line.trim_start().starts_with("\"version\":"));
    let package_version = line.and_then(|line| quoted(line, 3));
    if package_version.as_ref() != Some(&version) {
        let why = format!("the version is {package_version:?}, the workspace's is {version}");
        broken.push(Broken::new("package.json", 0, why));
    }
    for (path, manifest) in manifests {
        let mut lines = manifest.lines().take_while(|line| !line.starts_with("[dep"));
        if !lines.any(|line| line == "version.workspace = true") {
            broken.push(Broken::new(path, 0, "the version is not the workspace's"));
        }
    }
    broken
}

#[cfg(test)]
mod firing {
    use crate::versions::differing;

    #[test]
    fn a_second_version_is_found() {
        let workspace = "[workspace.package]\nversion = \"0.2.0\"\n";
        let json = |version: &str| format!("{{\n  \"version\": \"{version}\",\n}}");
        let good = [("a", "[package]\nversion.workspace = true\n".to_string())];
        let bad = [("a", "[package]\nversion = \"0.2.0\"\n".to_string())];
        assert_eq!(differing(workspace, &json("0.2.0"), &good).len(), 0);
        assert_eq!(differing(workspace, &json("0.1.0"), &good).len(), 1);
        assert_eq!(differing(workspace, "{}", &good).len(), 1);
        assert_eq!(differing(workspace, &json("0.2.0"), &bad).len(), 1);
        assert_eq!(differing("[workspace]\n", &json("0.2.0"), &good).len(), 1);
    }
}
