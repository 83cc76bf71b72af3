//! The npm package: its wasm, its one module, its types; its tests, in Node and in three browsers.

use crate::likeness;
use crate::packages::{install, is_on_path, on_path};
use crate::step::{Failure, Found, Step, Sum};
use crate::sweep;
use crate::wasm::Target;
use crate::workspace::{Workspace, answer, run, run_tests};
use std::path::Path;

/// Builds what `npm pack` ships, into `dist`.
pub(crate) const BUILD: Step = Step { name: "package", sum: Sum::Counts, run: build };
/// Tests the built package in Node.
pub(crate) const NODE: Step = Step { name: "node", sum: Sum::Counts, run: node };
/// Tests the built package in Chromium.
pub(crate) const CHROMIUM: Step = Step { name: "chromium", sum: Sum::Counts, run: chromium };
/// Tests the built package in Firefox, whose WebGPU is another.
pub(crate) const FIREFOX: Step = Step { name: "firefox", sum: Sum::Counts, run: firefox };
/// Tests the built package in WebKit, which has no WebGPU here.
pub(crate) const WEBKIT: Step = Step { name: "webkit", sum: Sum::Counts, run: webkit };
/// Tests what happens to whole pages, in the three browsers.
pub(crate) const PAGES: Step = Step { name: "pages", sum: Sum::Counts, run: pages };
/// Installs the packed package into an empty project, for Node, the compiler and Vite.
pub(crate) const PACKED: Step = Step { name: "packed", sum: Sum::Counts, run: packed };
/// Runs the demos in Chromium, from Vite's server and as built.
pub(crate) const DEMOS: Step = Step { name: "demos", sum: Sum::Counts, run: demos };

fn build(workspace: &Workspace) -> Result<Found, Failure> {
    let target = Target::find(workspace)?;
    let packages = ["-p", "rig-web", "-p", "rig-web-laws", "--profile", "web"];
    run(target.cargo(workspace, "build").args(packages))?;
    modules(workspace)?;
    laws(workspace)?;
    through_wgpu(workspace, &target)?;
    bundle(workspace)?;
    // The types are made, then met by a strict program.
    for project in ["crates/rig-web", "tests/web"] {
        run(workspace.program("node_modules/.bin/tsc").args(["-p", project]))?;
    }
    check_inner(workspace)?;
    shrink(workspace)?;
    let (module, wasm) = (zipped(workspace, "dist/rig.js")?, zipped(workspace, "dist/rig.wasm")?);
    let sum = module + wasm;
    let note = format!(
        "{sum} bytes under gzip -9 ({module} of JavaScript, {wasm} of wasm); at most \
         {ZIPPED_MAX}"
    );
    if sum > ZIPPED_MAX {
        return Err(note.into());
    }
    Ok(Found { note, ..Found::default() })
}

/// Makes the package's wasm of what was built, which keeps the texts and names for programmers.
/// What was made small once, of code taken apart, is put in order, and then made small again.
fn shrink(workspace: &Workspace) -> Result<(), Failure> {
    let folder = workspace.target("wasm").join("wasm32-unknown-unknown/web");
    let path = |name: &str| folder.join(name);
    let small = |from: &str, to: &Path, flags: &[&str]| {
        let mut command = workspace.program("node_modules/.bin/wasm-opt");
        command.arg(path(from)).args(SHRINK).args(flags).arg("-o").arg(to);
        run(&mut command)
    };
    made(&path("rig_web.wasm"), &path("rig_web.silent.wasm"), sweep::without_panics)?;
    let plain = ["--flatten", "--rereloop", "-Oz", "-g"];
    small("rig_web.silent.wasm", &path("rig_web.small.wasm"), &plain)?;
    made(&path("rig_web.small.wasm"), &path("rig_web.ordered.wasm"), likeness::named)?;
    let ordered = ["-Oz", "--reorder-functions-by-name"];
    small("rig_web.ordered.wasm", &workspace.root.join("dist/rig.wasm"), &ordered).map(drop)
}

/// Makes one module of another.
fn made(from: &Path, to: &Path, of: fn(&[u8]) -> Option<Vec<u8>>) -> Result<(), Failure> {
    let bytes = std::fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
    let why =
        "is not as the build needs it: linked with relocations, its texts made without `format!`";
    let made = of(&bytes).ok_or(format!("{} {why}", from.display()))?;
    Ok(std::fs::write(to, made).map_err(|error| format!("{}: {error}", to.display()))?)
}

/// Makes the package's module: bundled, without the comments of its shader, small; it tells
/// bundlers that its own imports are for Node, since what is small has no comments.
fn bundle(workspace: &Workspace) -> Result<(), Failure> {
    let made = workspace.target("wasm").join("rig.bundle.js");
    let mut esbuild = workspace.program("node_modules/.bin/esbuild");
    let inner = INNER.split_whitespace().collect::<Vec<_>>().join("|");
    esbuild.args(BUNDLE).arg(format!("--mangle-props=^(?:{inner})$"));
    run(esbuild.arg(format!("--outfile={}", made.display())))?;
    let shader = workspace.read(SHADER)?;
    let lines = shader.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    replaced(&made, &shader, &lines.collect::<Vec<_>>().join("\n"))?;
    let module = workspace.root.join("dist/rig.js");
    let mut terser = workspace.program("node_modules/.bin/terser");
    run(terser.arg(&made).args(SMALL_MODULE).arg(&module))?;
    replaced(&module, "import(", "import(/* webpackIgnore: true *//* @vite-ignore */")
}

/// Checks that the types which programs see have none of the names that the module makes short.
fn check_inner(workspace: &Workspace) -> Result<(), Failure> {
    let listed = workspace.read("package.json")?;
    let is_types = |path: &&str| path.starts_with("dist/") && path.ends_with(".d.ts");
    for path in listed.split('"').filter(is_types) {
        let types = workspace.read(path)?;
        let code = types.lines().map(str::trim).filter(|line| !line.starts_with(['/', '*']));
        let mut words = code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric()));
        if let Some(name) = words.find(|word| INNER.split_whitespace().any(|inner| inner == *word))
        {
            return Err(format!("{path} has `{name}`, which is short in the module").into());
        }
    }
    Ok(())
}

/// Replaces a text of a file, which has to have it.
fn replaced(path: &Path, from: &str, to: &str) -> Result<(), Failure> {
    let failed = |error| Failure::from(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(failed)?;
    if !text.contains(from) {
        return Err(format!("{} does not have this text: {from}", path.display()).into());
    }
    std::fs::write(path, text.replace(from, to)).map_err(failed)
}

/// Puts what a page needs to run the laws of drivers beside its tests.
fn laws(workspace: &Workspace) -> Result<(), Failure> {
    run(workspace.program("node_modules/.bin/esbuild").args(LAWS))?;
    let built = workspace.target("wasm").join("wasm32-unknown-unknown/web/rig_web_laws.wasm");
    let to = workspace.root.join("tests/web/laws/built/laws.wasm");
    let copied = std::fs::copy(&built, &to);
    copied.map_err(|error| format!("{}: {error}", to.display()))?;
    Ok(())
}

/// Builds what a page needs to run rig's driver of wgpu, and binds it.
fn through_wgpu(workspace: &Workspace, target: &Target) -> Result<(), Failure> {
    // Apart from the package, whose core is built without wgpu.
    run(target.cargo(workspace, "build").args(["-p", THROUGH, "--lib", "--profile", "web"]))?;
    let built = workspace.target("wasm").join("wasm32-unknown-unknown/web/rig_web_wgpu.wasm");
    let mut bind = workspace.cargo();
    bind.args(["run", "-p", THROUGH, "--bin", "bind", "--"]).arg(built);
    run(bind.arg("tests/web/wgpu/built")).map(drop)
}

fn node(workspace: &Workspace) -> Result<Found, Failure> {
    let mut found = run_tests(workspace.program("node").arg("tests/web/node.mjs"))?;
    let exact = ["--expose-gc", "tests/web/node.mjs"];
    found.tests.add(run_tests(workspace.program("node").args(exact))?.tests);
    Ok(found)
}

fn chromium(workspace: &Workspace) -> Result<Found, Failure> {
    test_in(workspace, &CHROMIUM_NAMED, "tests/web/chromium.mjs")
}

fn pages(workspace: &Workspace) -> Result<Found, Failure> {
    let tests = "tests/web/pages.mjs";
    let mut found = test_in(workspace, &CHROMIUM_NAMED, tests)?;
    for named in [&FIREFOX_NAMED, &WEBKIT_NAMED] {
        found.tests.add(test_in(workspace, named, tests)?.tests);
    }
    Ok(found)
}

fn packed(workspace: &Workspace) -> Result<Found, Failure> {
    test_in(workspace, &CHROMIUM_NAMED, "tests/web/package.mjs")
}

fn demos(workspace: &Workspace) -> Result<Found, Failure> {
    test_in(workspace, &CHROMIUM_NAMED, "tests/web/demos.mjs")
}

fn firefox(workspace: &Workspace) -> Result<Found, Failure> {
    test_in(workspace, &FIREFOX_NAMED, "tests/web/firefox.mjs")
}

fn webkit(workspace: &Workspace) -> Result<Found, Failure> {
    test_in(workspace, &WEBKIT_NAMED, "tests/web/webkit.mjs")
}

/// A browser.
struct Named {
    /// The programs that it may be, the first that is there.
    programs: &'static [&'static str],
    /// The packages of Debian that bring it and what its tests call besides.
    packages: &'static [&'static str],
    /// What its tests call besides.
    besides: &'static [&'static str],
}

/// Runs tests in a browser; installs it where that is possible.
fn test_in(workspace: &Workspace, named: &Named, tests: &str) -> Result<Found, Failure> {
    let find = || {
        let all = named.besides.iter().all(|program| is_on_path(program));
        named.programs.iter().copied().find_map(on_path).filter(|_| all)
    };
    let browser = find().or_else(|| {
        install(workspace, named.packages);
        find()
    });
    let Some(browser) = browser else {
        let (program, packages) = (named.programs[0], named.packages.join(" "));
        let text = format!("no {program}; on Debian get it with `apt-get install {packages}`");
        return Err(text.into());
    };
    run_tests(workspace.program("node").args([tests, &browser]))
}

/// Installs what `package-lock.json` names, unless that is what is there.
fn modules(workspace: &Workspace) -> Result<(), Failure> {
    let changed = |path: &str| workspace.root.join(path).metadata().and_then(|of| of.modified());
    let there = changed("node_modules/.package-lock.json");
    let wanted = changed("package-lock.json");
    let is_new = there.is_ok_and(|there| wanted.is_ok_and(|wanted| there >= wanted));
    if is_new && workspace.root.join("node_modules/.bin/tsc").exists() {
        return Ok(());
    }
    run(workspace.program("npm").args(["ci", "--no-fund", "--no-audit"])).map(drop)
}

/// Returns the bytes of a file under `gzip -9`, as Node's zlib packs it.
fn zipped(workspace: &Workspace, path: &str) -> Result<u64, Failure> {
    let mut node = workspace.program("node");
    let text = answer(node.args(["-e", PACK, path])).and_then(|text| text.parse().ok());
    text.ok_or(format!("{path} is not there, or Node does not pack it").into())
}

/// What module and wasm may have together under `gzip -9`: what was reached, and a little more. The
/// goal was 80,000 (P20).
const ZIPPED_MAX: u64 = 78_000;
/// The program whose GPU is wgpu's.
const THROUGH: &str = "rig-web-wgpu";
const SHADER: &str = "crates/rig/src/drivers/wgpu/edge.wgsl";
const PACK: &str = "
    const bytes = require('fs').readFileSync(process.argv[1]);
    console.log(require('zlib').gzipSync(bytes, { level: 9 }).length);
";
const CHROMIUM_NAMED: Named = Named {
    programs: &["chromium", "chromium-browser", "google-chrome"],
    packages: &["chromium"],
    besides: &[],
};
const FIREFOX_NAMED: Named =
    Named { programs: &["firefox-esr", "firefox"], packages: &["firefox-esr"], besides: &[] };
const WEBKIT_NAMED: Named = Named {
    programs: &["WebKitWebDriver"],
    packages: &["webkit2gtk-driver", "xvfb"],
    besides: &["Xvfb"],
};
/// Static data begins a stack above address 0, so nothing is below 1,024; memory begins as zeros.
/// The features are those that the compiler uses by itself, and that every engine with WebGPU has.
const SHRINK: [&str; 10] = [
    "--enable-bulk-memory",
    "--enable-sign-ext",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-multivalue",
    "--low-memory-unused",
    "--zero-filled-memory",
    "--strip-producers",
    "--strip-target-features",
];
const BUNDLE: [&str; 6] = [
    "crates/rig-web/js/rig.ts",
    "--bundle",
    "--format=esm",
    "--target=es2022",
    "--minify",
    "--loader:.wgsl=text",
];
/// Members that no program and no engine has, which get short names.
const INNER: &str = "
    abandon addCommands arrays checkBinding checkThere checkUsage checkWritten dropCommands dropKept
    dropped endExport exported foreign gaveBack gpuBuffer hasRejected indexIn isFound isJudged
    isLarge isOne isProven isReady isSure isUrgent isWritten judge judged letGo loss numberIn
    onRejection ownNumber placed putList putSite putText quietly refused rejection renew settings
    submitRun takeOne takenOver unexport uniforms verdict whyGone wrapped
";
/// An uncaught error shows the line that threw it, in Node all of it: so statements end with lines.
/// Functions stay where they are: one moved to where it is called would be made anew each time.
const SMALL_MODULE: [&str; 6] = [
    "--module",
    "--mangle",
    "--compress=passes=3,reduce_funcs=false",
    "--ecma=2022",
    "--format=semicolons=false",
    "--output",
];
const LAWS: [&str; 6] = [
    "tests/web/laws/page.ts",
    "--bundle",
    "--format=esm",
    "--target=es2022",
    "--loader:.wgsl=text",
    "--outfile=tests/web/laws/built/page.js",
];
