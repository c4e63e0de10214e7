import type { Reporter, TestCase, TestModule } from "vitest/node";

/**
 * Names every skipped test and closes with one line of counts. With SLUICE_NO_SKIPS=1 (as `.ci/run` sets it, after
 * it has installed every tool) a skipped test is a failure.
 */
export default class CountsReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const inState = (state: string): TestCase[] => tests.filter((test) => test.result().state === state);
    const skipped = inState("skipped");
    for (const test of skipped)
      console.log(`skipped: ${test.module.moduleId.replace(`${process.cwd()}/`, "")}: ${test.fullName}`);
    if (skipped.length > 0 && process.env.SLUICE_NO_SKIPS === "1") {
      console.error(`${skipped.length} tests were skipped, but SLUICE_NO_SKIPS=1 allows none`);
      process.exitCode = 1;
    }
    console.log(
      `${inState("passed").length} passed, ${inState("failed").length} failed, ${skipped.length} skipped`,
    );
  }
}
