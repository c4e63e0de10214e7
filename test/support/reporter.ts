import { relative } from "node:path";
import { DefaultReporter, type TestCase, type TestModule } from "vitest/node";
import { runs, suiteOf } from "./suite.ts";

type Ended = Parameters<DefaultReporter["onTestRunEnd"]>;

const SLOWEST = 10;

/** What the runtime and the bundler print while all is well: of objects that a test kills, most of all. */
const EXPECTED = [
  /jsg\.Error: (killed by the test|the test has let it die|crash|start anew|Application called deleteAllDurableObjects\(\)\.)/,
  /uncaught exception; source = Uncaught \(in promise\); stack = Error: (its connection is closed|the test has let it die|crash)/,
  /^console warning; message = Called \.text\(\) on an HTTP body which does not appear to be text/,
  /^NOSENTRY SQLite alarm/,
  /Sourcemap for "[^"]*" points to a source file outside its package/,
];

const suite = suiteOf(process.env);

/**
 * A line for each file as it ends; at the end the slowest files, the name of each skipped test, and one line of counts.
 * Tests of the other suite do not count. With SLUICE_NO_SKIPS=1 (as `.ci/run` sets it, after it has installed every
 * tool) a skipped test is a failure.
 */
export default class SuiteReporter extends DefaultReporter {
  #ended = 0;
  #files = 0;

  override onInit(...given: Parameters<DefaultReporter["onInit"]>): void {
    leaveOut(EXPECTED);
    super.onInit(...given);
  }

  override onTestRunStart(specifications: Parameters<DefaultReporter["onTestRunStart"]>[0]): void {
    super.onTestRunStart(specifications);
    this.#files = specifications.length;
  }

  protected override printTestModule(module: TestModule): void {
    this.#ended++;
    const log = this.log;
    const progress = `[${this.#ended}/${this.#files}]`;
    // A failed file lists its tests; any other one is a line.
    this.log = (line: string) => log.call(this, line.startsWith("  ") ? line : `${progress}${line}`);
    try {
      if (module.state() === "failed" || testsOf(module).length > 0) super.printTestModule(module);
    } finally {
      this.log = log;
    }
    // Why a test failed is told at the end, too; a run that is stopped does not come to its end.
    for (const test of testsOf(module))
      for (const { message } of test.result().errors ?? []) log.call(this, `      ${test.name}: ${message}`);
  }

  override onTestRunEnd(...ended: Ended): void {
    super.onTestRunEnd(...ended);
    const [modules] = ended;
    this.#printSlowest(modules);
    const tests = modules.flatMap(testsOf);
    const inState = (state: string): TestCase[] => tests.filter((test) => test.result().state === state);
    const skipped = inState("skipped");
    for (const test of skipped) console.log(`skipped: ${nameOf(test.module)}: ${test.fullName}`);
    if (skipped.length > 0 && process.env.SLUICE_NO_SKIPS === "1") {
      console.error(`${skipped.length} tests were skipped, but SLUICE_NO_SKIPS=1 allows none`);
      process.exitCode = 1;
    }
    console.log(
      `${inState("passed").length} passed, ${inState("failed").length} failed, ${skipped.length} skipped`,
    );
  }

  #printSlowest(modules: readonly TestModule[]): void {
    const times = modules.map((module) => ({ name: nameOf(module), millis: millisOf(module) }));
    const slowest = times.sort((a, b) => b.millis - a.millis).slice(0, SLOWEST);
    console.log(`the ${slowest.length} slowest files:`);
    for (const { name, millis } of slowest)
      console.log(`${(millis / 1000).toFixed(1).padStart(7)} s  ${name}`);
    console.log();
  }
}

function testsOf(module: TestModule): TestCase[] {
  return [...module.children.allTests()].filter(({ tags }) => runs(suite, tags));
}

function nameOf({ moduleId }: TestModule): string {
  return relative(process.cwd(), moduleId);
}

/** All that a file takes: its start, its imports and its tests. */
function millisOf(module: TestModule): number {
  const { environmentSetupDuration, prepareDuration, collectDuration, setupDuration, duration } =
    module.diagnostic();
  return environmentSetupDuration + prepareDuration + collectDuration + setupDuration + duration;
}

/** Workerd's messages come past all of Vitest's filters, one a write. */
function leaveOut(messages: readonly RegExp[]): void {
  for (const stream of [process.stdout, process.stderr]) {
    const write = stream.write.bind(stream) as (...args: unknown[]) => boolean;
    stream.write = (text: unknown, ...more: unknown[]) =>
      messages.some((message) => message.test(String(text))) || write(text, ...more);
  }
}
