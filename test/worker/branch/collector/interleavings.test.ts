// @module-tag rest
import { describe, expect, test, vi } from "vitest";
import { ContentStore } from "../../../../worker/branch/contents/content-store.ts";
import { everyOrder, exploresOrders, meetings, nameOf } from "./walks.ts";

exploresOrders();

describe("in every order of their steps, names read their bytes and nothing else is left:", () => {
  test("a part that comes again, a completion that read the parts before, and the blob reaper", async () => {
    const { states } = await everyOrder("COMPLETION", "PART_AGAIN", "COLLECTION");
    expect(states).toBeGreaterThan(20);
  });

  for (const meeting of meetings(0)) {
    test(nameOf(meeting), { timeout: 300_000 }, async () => {
      const { states } = await everyOrder(...meeting);
      expect(states).toBeGreaterThan(3 ** (meeting.length - 1));
    });
  }
});

describe("a blob reaper that is broken is caught, since names lose their bytes or something is left:", () => {
  test("a completion names blobs of a part that has gone meanwhile", async () => {
    vi.spyOn(ContentStore.prototype, "lacksKept").mockReturnValue(false);
    await expect(everyOrder("COMPLETION", "PART_AGAIN", "COLLECTION")).rejects.toThrow(/m of \{\}|is gone/);
  });

  test("whoever copies keeps nothing, and gives back all the same", async () => {
    vi.spyOn(ContentStore.prototype, "keep").mockImplementation(() => {});
    await expect(everyOrder("STAGED_COPY", "COLLECTION")).rejects.toThrow("of a file is not in the branch");
  });

  test("an upload that ends gives nothing back", async () => {
    vi.spyOn(ContentStore.prototype, "releaseMany").mockImplementation(() => {});
    await expect(everyOrder("ABORTION", "COLLECTION")).rejects.toThrow(/refs: /);
  });
});
