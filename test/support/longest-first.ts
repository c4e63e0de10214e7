import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files of minutes, the longest first. One that began last would run alone at the end, beside an idle core. */
const LONGEST = [
  "test/worker/branch/collector/interleavings.test.ts",
  "test/worker/branch/collector/more-interleavings.test.ts",
  "test/worker/branch/collector/collector-property.test.ts",
  "test/worker/pipeline/erasures-crash.test.ts",
  "test/simulator/histories.test.ts",
  "test/node/e2e/chaos.test.ts",
  "test/node/conformance/suites.test.ts",
  "test/node/deploy/image.test.ts",
  "test/node/clients/embedded.test.ts",
  "test/node/e2e/kill-fifty.test.ts",
  "test/node/e2e/network.test.ts",
];

/** What takes long begins first, and the rest in the order that it would have. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rankOf = ({ moduleId }: TestSpecification): number => {
      const rank = LONGEST.findIndex((file) => moduleId.endsWith(`/${file}`));
      return rank < 0 ? LONGEST.length : rank;
    };
    return (await super.sort(files)).sort((one, other) => rankOf(one) - rankOf(other));
  }
}
