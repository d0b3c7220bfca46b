// Package crash kills a real `gantry server` in the middle of writes and looks for what it had
// acknowledged.
//
// The long run: go test ./test/crash -kills 20 -writes 10000 -timeout 30m. To add a way to die:
// another test beside kill_test.go.
package crash
