import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { TestModule, TestRunResult } from "vitest/node";
import type { Outcome, RunRequest } from "./run-tests.ts";

/**
 * Runs tests of one project of a tree, as its parent asks: `vitest-process.ts <root> <project>`. It stops at the first test that
 * fails. The tree's own vitest is used, as by its own tests.
 */

/** A test that waits for what never comes fails by itself, before the run is given up. */
const TEST_MS = 20_000;

/** A failure of these is one of the mutant's own making. */
const WRECKS =
  /^ReferenceError\b|^SyntaxError\b(?!.*JSON)|\bSQLITE_ERROR\b|\bsyntax error\b|\bno such (column|table)\b|\bis not defined$|^TypeError: .* is not a function$/;

const [, , root = "", project = ""] = process.argv;
const { createVitest } = await importFrom(root);

let failed: { readonly test: string; readonly isWreck: boolean; readonly why: string } | undefined;

const vitest = await createVitest("test", {
  root,
  project: [project],
  watch: false,
  testTimeout: TEST_MS,
  reporters: [
    {
      onTestCaseResult(test) {
        const { state, errors = [] } = test.result();
        if (state !== "failed" || failed) return;
        const why = `${errors[0]?.name}: ${errors[0]?.message}`;
        failed = { test: test.fullName, isWreck: WRECKS.test(why), why };
        void vitest.cancelCurrentRun("test-failure");
      },
    },
  ],
});
await vitest.standalone();

process.on("message", (request: RunRequest) => {
  void run(request).then((outcome) => process.send?.(outcome));
});
process.on("disconnect", () => process.exit());

async function run({ file, title, changed }: RunRequest): Promise<Outcome> {
  failed = undefined;
  for (const path of changed) vitest.invalidateFile(join(root, path));
  if (title === undefined) vitest.resetGlobalTestNamePattern();
  else vitest.setGlobalTestNamePattern(title);
  const path = join(root, file);
  const specifications = await vitest.globTestSpecifications([path]);
  const result = await vitest.runTestSpecifications(specifications, false);
  return outcomeOf(
    result,
    result.testModules.find(({ moduleId }) => moduleId === path),
  );
}

function outcomeOf({ unhandledErrors }: TestRunResult, module: TestModule | undefined): Outcome {
  if (failed) {
    const { test, isWreck, why } = failed;
    return isWreck ? { kind: "did not run", why: firstLine(why) } : { kind: "failed", test };
  }
  const broken = module?.errors()[0] ?? unhandledErrors[0];
  if (!module || broken || module.state() === "failed") {
    const why = broken instanceof Error ? broken.message : String((broken as { message?: unknown })?.message);
    return { kind: "did not run", why: firstLine(why) };
  }
  const passed = [...module.children.allTests("passed")].length;
  return passed > 0 ? { kind: "passed" } : { kind: "did not run", why: "no test has that title" };
}

function firstLine(text: string): string {
  return text.split("\n")[0] ?? "";
}

async function importFrom(tree: string): Promise<typeof import("vitest/node")> {
  const path = createRequire(join(tree, "package.json")).resolve("vitest/node");
  return await import(pathToFileURL(path).href);
}
