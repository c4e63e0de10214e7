import { describe, expect, test } from "vitest";
import { isExpiryText, parseExpiry } from "../../../protocol/key-expiry.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const NOW = Date.UTC(2026, 0, 31, 12);

describe("when a key expires", () => {
  test.each([
    ["30d", NOW + 30 * DAY_MS],
    ["12h", NOW + DAY_MS / 2],
    ["1d12h", NOW + 1.5 * DAY_MS],
    ["90m", NOW + 90 * 60_000],
    ["1s", NOW + 1000],
    ["36500d", NOW + 36_500 * DAY_MS],
    ["2027-01-31", Date.UTC(2027, 0, 31)],
    ["2026-01-31T12:01Z", NOW + 60_000],
    ["2027-01-31T18:00:30Z", Date.UTC(2027, 0, 31, 18, 0, 30)],
    ["2027-01-31T18:00:30.500+02:00", Date.UTC(2027, 0, 31, 16, 0, 30, 500)],
  ])("is read of %s", (text, at) => {
    expect(parseExpiry(text, NOW)).toEqual({ ok: true, at });
  });

  test.each([
    "",
    "30",
    "-1d",
    "30 d",
    "30days",
    "1.5d",
    "1w",
    "never",
    "tomorrow",
    "1790000000000",
    "31.1.2027",
    "2027-02-31",
    "2027-02-29T00:00Z",
    "2027-13-01",
    "2027-01-31T25:00Z",
    "2027-01-31T18:00",
    "2027-01-31 18:00Z",
    "30d\n",
  ])("is not read of %j, and the fault says what to write", (text) => {
    expect(isExpiryText(text)).toBe(false);
    expect(parseExpiry(text, NOW)).toEqual({
      ok: false,
      fault: `must be a length of time such as 30d, 12h or 1d12h, or a time such as 2027-01-31T18:00Z, not '${text}'`,
    });
  });

  test.each([
    "0d",
    "0s",
    "2026-01-31",
    "2026-01-31T12:00Z",
    "2026-01-31T13:00+01:00",
    "1999-01-01",
  ])("does not lie ahead if it is %s", (text) => {
    expect(isExpiryText(text)).toBe(true);
    expect(parseExpiry(text, NOW)).toEqual({
      ok: false,
      fault: expect.stringMatching(
        `^is '${text.replaceAll("+", "\\+")}', which is not ahead of the gateway's clock, 2026-01-31T12:00:00.000Z: give `,
      ),
    });
  });

  test.each([
    "36501d",
    "36500d1s",
    "999999d",
    "2199-01-01",
  ])("is at most a century ahead, and not %s", (text) => {
    expect(parseExpiry(text, NOW)).toEqual({
      ok: false,
      fault: `is '${text}', and must be at most 36500d ahead: leave it out for a key that never expires`,
    });
  });
});
