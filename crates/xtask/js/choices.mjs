// What a module is free to say in another way is said so that gzip finds more of what it saw.
//
// Functions may stand in any order, and so may the methods of a class. A name that a function or a
// method binds and a private name of a class may be any other that is free there: two at a time
// change places, in all of that function or class, where this makes the module smaller. Names of
// one letter do, so that nothing moves.

import { parse } from "acorn"; // Terser's parser, which comes with it.
import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

/** Short names, those first that a module has most, and how many free ones are tried. */
const LETTERS = "etirsnhaolufcdgmybwpvkxz";
const FREE_MAX = 6;

const [, , path] = process.argv;
const code = Buffer.from(ordered(readFileSync(path, "latin1")), "latin1");
for (const places of partsOf(code.toString("latin1"))) choose(code, places);
writeFileSync(path, code);

/** Puts functions, and the methods of each class, where the module is smallest with them. */
function ordered(code) {
  let made = code;
  for (const nodes of movable(parsed(code))) {
    const [start, end] = [nodes[0].start, nodes.at(-1).end];
    let texts = nodes.map((node) => code.slice(node.start, node.end));
    const whole = (texts) => made.slice(0, start) + texts.join("") + made.slice(end);
    let least = zipped(made);
    for (const text of [...texts]) {
      const others = texts.filter((other) => other !== text);
      for (let at = 0; at <= others.length; at += 1) {
        const tried = others.toSpliced(at, 0, text);
        const size = zipped(whole(tried));
        if (size < least) [least, texts] = [size, tried];
      }
    }
    made = whole(texts);
  }
  return made;
}

/** Returns what may stand in any order among itself, side by side. */
function movable(program) {
  const lists = [program.body.filter(({ type }) => type === "FunctionDeclaration")];
  walk(program, ({ type, body }) => {
    if (type === "ClassBody") lists.push(body.filter(({ type }) => type === "MethodDefinition"));
  });
  return lists.filter((nodes) => nodes.length > 1 && nodes.every((node, i) => i === 0 || nodes[i - 1].end === node.start));
}

/** Has names change places while that makes the module smaller; those without places are free. */
function choose(code, places) {
  let least = zipped(code);
  const names = [...places.keys()];
  for (const [i, one] of names.entries()) {
    for (const other of names.slice(i + 1)) {
      if (places.get(one).length === 0) continue;
      swap(code, places, one, other);
      const size = zipped(code);
      if (size < least) least = size;
      else swap(code, places, one, other);
    }
  }
}

/** Has two names change places. */
function swap(code, places, one, other) {
  const [ofOne, ofOther] = [places.get(one), places.get(other)];
  for (const at of ofOne) code.write(other, at);
  for (const at of ofOther) code.write(one, at);
  places.set(one, ofOther).set(other, ofOne);
}

function zipped(code) {
  return gzipSync(code, { level: 9 }).length;
}

/** Returns what has names of its own: of each, where its names are, and none of those that are free. */
function partsOf(code) {
  const parts = [];
  walk(parsed(code), (node, parent) => {
    if (node.type === "ClassBody") parts.push(privateNames(node));
    const isMember = parent?.type === "MethodDefinition" || parent?.type === "PropertyDefinition";
    if (isFunction(node) && (isMember || parent?.type === "Program")) parts.push(localNames(node));
  });
  return parts;
}

function parsed(code) {
  return parse(code, { ecmaVersion: "latest", sourceType: "module" });
}

function privateNames(body) {
  const found = collected();
  walk(body, (node) => {
    if (node.type === "PrivateIdentifier") found.add(node.name, node.start + 1, true);
  });
  return found.places();
}

/** Returns where the names are that a function binds. */
function localNames(root) {
  const found = collected();
  visit(root, null);
  return found.places();

  /** `scopes` are the sets of names that are bound around a node, the innermost first. */
  function visit(node, scopes) {
    if (node.type === "Identifier") {
      let around = scopes;
      while (around && !around.names.has(node.name)) around = around.outer;
      return found.add(node.name, node.start, around !== null);
    }
    const names = boundBy(node);
    const inner = names ? { names, outer: scopes } : scopes;
    for (const [key, child] of children(node)) {
      // The name of what is declared is one of the scope around.
      if (key === "id" && node.type === "FunctionDeclaration") {
        if (node !== root) visit(child, scopes);
      } else if (node.type === "Property" && node.shorthand) {
        // Its text would be another: the name stays.
        if (key === "value") walk(child, (name) => name.type === "Identifier" && found.add(name.name, name.start, false));
      } else if (!isMemberName(node, key)) {
        visit(child, inner);
      }
    }
  }
}

/** Takes names with their places; answers those that may change. */
function collected() {
  const [all, fixed] = [new Map(), new Set()];
  return {
    add: (name, at, isBound) => {
      if (!isBound) fixed.add(name);
      all.set(name, [...(all.get(name) ?? []), at]);
    },
    /** The places of each, and letters that are free: these have none. */
    places: () => {
      const own = [...all].filter(([name]) => name.length === 1 && !fixed.has(name));
      const free = [...LETTERS].filter((letter) => !all.has(letter)).slice(0, FREE_MAX);
      return new Map([...own, ...free.map((letter) => [letter, []])]);
    },
  };
}

/** Returns the names that a node binds for what is in it, or nothing where it is no scope. */
function boundBy(node) {
  const names = new Set();
  const bind = (pattern) => {
    if (pattern?.type === "Identifier") names.add(pattern.name);
    else if (pattern?.type === "Property") bind(pattern.value);
    else if (pattern?.type === "AssignmentPattern") bind(pattern.left);
    else for (const part of pattern?.properties ?? pattern?.elements ?? [pattern?.argument]) if (part) bind(part);
  };
  const declare = (statement) => {
    if (statement?.type === "VariableDeclaration") for (const { id } of statement.declarations) bind(id);
    else if (statement?.type === "FunctionDeclaration" || statement?.type === "ClassDeclaration") bind(statement.id);
  };
  if (isFunction(node)) {
    for (const param of node.params) bind(param);
    if (node.type === "FunctionExpression") bind(node.id);
    walk(node, (inner) => inner.kind === "var" && declare(inner), (inner) => !isFunction(inner));
  } else if (node.type === "ClassExpression") {
    bind(node.id);
  } else if (node.type === "CatchClause") {
    bind(node.param);
  } else if (/^For/.test(node.type)) {
    declare(node.init ?? node.left);
  } else if (node.type === "BlockStatement" || node.type === "SwitchStatement") {
    for (const statement of node.body ?? node.cases.flatMap(({ consequent }) => consequent)) declare(statement);
  } else {
    return null;
  }
  return names;
}

function isFunction(node) {
  return /Function/.test(node.type);
}

/** Whether a child of a node names a member, a label or what the language has. */
function isMemberName(node, key) {
  if (/^(Labeled|Break|Continue)Statement$/.test(node.type)) return key === "label";
  if (node.type === "MetaProperty") return true;
  return !node.computed && (key === "property" || key === "key");
}

/** Calls `f` for a node and all that is in it, unless `enters` says that it is not to be looked into. */
function walk(node, f, enters = () => true, parent) {
  f(node, parent);
  for (const [, child] of children(node)) if (enters(child)) walk(child, f, enters, node);
}

function children(node) {
  const pairs = Object.entries(node).flatMap(([key, value]) => [value].flat().map((child) => [key, child]));
  return pairs.filter(([, child]) => typeof child?.type === "string");
}
