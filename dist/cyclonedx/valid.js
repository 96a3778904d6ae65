// Says what is wrong with a bill of materials by the official schema of CycloneDX. The packages
// that it needs are installed by scripts/install-cyclonedx; NODE_PATH says where they are.
//
//   node valid.js FILE
"use strict";

const { readFileSync } = require("node:fs");
const { Validation } = require("@cyclonedx/cyclonedx-library");

const text = readFileSync(process.argv[2], "utf8");
const validator = new Validation.JsonStrictValidator(JSON.parse(text).specVersion);
validator.validate(text).then(
  (errors) => {
    if (errors !== null) {
      console.error(JSON.stringify(errors, null, 2));
      process.exit(1);
    }
  },
  (error) => {
    // A validator that is missing is no pass.
    console.error(error);
    process.exit(2);
  },
);
