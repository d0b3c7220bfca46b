// Package dashboard looks at Gantry's page with a real browser: Debian's chromium, headless, driven
// by the DevTools protocol.
//
// A module of its own, so that the driver's dependencies stay out of Gantry's; hack/test.sh runs
// it. The cluster is testcluster's. Without chromium the tests are skipped; the audit of
// accessibility also needs npm, which brings axe-core.
package dashboard
