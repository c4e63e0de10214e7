import { describe, expect, test } from "vitest";
import { placeOfRegion, placeOfRow, regionFault } from "../../../worker/core/places.ts";

describe("a region", () => {
  test.each([
    ["us-west-2", "wnam"],
    ["us-east-2", "enam"],
    ["ca-central-1", "enam"],
    ["sa-east-1", "sam"],
    ["eu-west-1", "weur"],
    ["eu-central-1", "weur"],
    ["ap-northeast-1", "apac"],
    ["ap-southeast-2", "oc"],
    ["af-south-1", "afr"],
    ["me-south-1", "me"],
  ])("of AWS stands for its part of the world: %s for %s", (region, hint) => {
    expect(placeOfRegion(region)).toEqual({ region, hint });
  });

  test.each([
    "wnam",
    "enam",
    "sam",
    "weur",
    "eeur",
    "apac",
    "oc",
    "afr",
    "me",
  ])("may be one of Cloudflare's hints itself: %s", (hint) => {
    expect(placeOfRegion(hint)).toEqual({ region: hint, hint });
  });

  test("is taken in capitals, too, as S3 had EU", () => {
    expect(placeOfRegion("EU")).toEqual({ region: "eu", hint: "weur" });
    expect(placeOfRegion("WEUR")).toEqual({ region: "weur", hint: "weur" });
  });

  test.each(["auto", "us-east-1"])("that every client may send stands for nowhere: %s", (region) => {
    expect(placeOfRegion(region)).toBeNull();
  });

  test.each([
    "ap-southeast-99",
    "fr-par",
    "nyc3",
    "us-west-004",
    "europe-west4",
  ])("that is not known is kept, and hints at nothing: %s", (region) => {
    expect(placeOfRegion(region)).toEqual({ region, hint: null });
  });

  test.each([
    "",
    "default",
    "Frankfurt",
    "eu_west_1",
    "eu west 1",
    "-1",
    "eu-",
    "1-eu",
    "ü-1",
    `a-${"b".repeat(62)}`,
  ])("does not look like %j, and what is said of that names it and all that are known", (name) => {
    expect(placeOfRegion(name)).toBeUndefined();
    expect(regionFault(name)).toContain(JSON.stringify(name.slice(0, 63)));
    for (const known of ["auto", "us-east-1", "eu-west-1", "weur", "ap-southeast-2"]) {
      expect(regionFault(name)).toContain(known);
    }
  });
});

test("a hint that a later release wrote down counts as none", () => {
  expect(placeOfRow({ region: "mars-1", hint: "mars" })).toEqual({ region: "mars-1", hint: null });
  expect(placeOfRow({ region: "eu-west-1", hint: "weur" })).toEqual({ region: "eu-west-1", hint: "weur" });
  expect(placeOfRow({ region: null, hint: null })).toBeNull();
});
