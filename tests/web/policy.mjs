// Says in the title whether rig gets ready under the page's policy.

import { init } from "/dist/rig.js";

init().then(
  () => (document.title = "ready"),
  (e) => (document.title = e.message),
);
