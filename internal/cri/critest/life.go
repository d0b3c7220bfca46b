package critest

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	utilexec "k8s.io/utils/exec"
)

func versionAndStatus(b *box) {
	v, err := b.Runtime.Version(b.ctx, "v1")
	b.ok("Version", err)
	if v.RuntimeName == "" || v.RuntimeVersion == "" || v.RuntimeApiVersion != "v1" {
		b.Errorf("Version leaves something empty: %v", v)
	}
	st, err := b.Runtime.Status(b.ctx, false)
	b.ok("Status", err)
	var kinds []string
	for _, c := range st.Status.Conditions {
		kinds = append(kinds, c.Type)
	}
	for _, want := range []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady} {
		if !slices.Contains(kinds, want) {
			b.Errorf("Status has no condition %s: %v", want, kinds)
		}
	}
}

func life(b *box) {
	p := b.run()
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(p.id) {
		b.Errorf("sandbox id %q is not 64 hex digits", p.id)
	}
	sb, err := b.Runtime.PodSandboxStatus(b.ctx, p.id, false)
	b.ok("PodSandboxStatus", err)
	if sb.Status.State != runtimeapi.PodSandboxState_SANDBOX_READY {
		b.Errorf("sandbox state %s after RunPodSandbox", sb.Status.State)
	}
	if !b.Host && sb.Status.GetNetwork().GetIp() == "" {
		b.Error("no IP after RunPodSandbox")
	}
	id := b.create(p, b.containerConfig(p, "app", "sleep 1000"))
	if st := b.status(id); st.State != created || st.StartedAt != 0 {
		b.Errorf("after CreateContainer: state %s, startedAt %d", st.State, st.StartedAt)
	}
	b.ok("StartContainer", b.Runtime.StartContainer(b.ctx, id))
	st := b.status(id)
	if st.State != running || st.StartedAt < st.CreatedAt || st.FinishedAt != 0 || st.Image.GetImage() == "" || st.ImageRef == "" {
		b.Errorf("after StartContainer: %v", st)
	}
	if want := filepath.Join(p.config.LogDirectory, "app.log"); st.LogPath != want {
		b.Errorf("log path %q, want %q", st.LogPath, want)
	}
	b.ok("StopContainer", b.Runtime.StopContainer(b.ctx, id, 1))
	st = b.status(id)
	if st.State != exited || st.FinishedAt < st.StartedAt || st.ExitCode == 0 || st.Reason != "Error" {
		b.Errorf("after StopContainer: %v", st)
	}
	b.ok("RemoveContainer", b.Runtime.RemoveContainer(b.ctx, id))
	_, err = b.Runtime.ContainerStatus(b.ctx, id, false)
	b.refused("ContainerStatus of a removed container", err, codes.NotFound)
	b.ok("StopPodSandbox", b.Runtime.StopPodSandbox(b.ctx, p.id))
	sb, err = b.Runtime.PodSandboxStatus(b.ctx, p.id, false)
	b.ok("PodSandboxStatus", err)
	if sb.Status.State != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		b.Errorf("sandbox state %s after StopPodSandbox", sb.Status.State)
	}
	b.ok("RemovePodSandbox", b.Runtime.RemovePodSandbox(b.ctx, p.id))
	_, err = b.Runtime.PodSandboxStatus(b.ctx, p.id, false)
	b.refused("PodSandboxStatus of a removed sandbox", err, codes.NotFound)
}

const unknown = "0123456789012345678901234567890123456789012345678901234567890123"

func idempotence(b *box) {
	b.ok("StopContainer unknown", b.Runtime.StopContainer(b.ctx, unknown, 0))
	b.ok("RemoveContainer unknown", b.Runtime.RemoveContainer(b.ctx, unknown))
	b.ok("StopPodSandbox unknown", b.Runtime.StopPodSandbox(b.ctx, unknown))
	b.ok("RemovePodSandbox unknown", b.Runtime.RemovePodSandbox(b.ctx, unknown))
	b.ok("RemoveImage unknown", b.Images.RemoveImage(b.ctx, &runtimeapi.ImageSpec{Image: "example.invalid/none:1"}))
	p := b.run()
	id := b.start(p, "app", "sleep 1000")
	for range 2 {
		b.ok("StopContainer again", b.Runtime.StopContainer(b.ctx, id, 0))
	}
	for range 2 {
		b.ok("RemoveContainer again", b.Runtime.RemoveContainer(b.ctx, id))
	}
	for range 2 {
		b.ok("StopPodSandbox again", b.Runtime.StopPodSandbox(b.ctx, p.id))
	}
	for range 2 {
		b.ok("RemovePodSandbox again", b.Runtime.RemovePodSandbox(b.ctx, p.id))
	}
}

func illegalOrders(b *box) {
	p := b.run()
	_, err := b.Runtime.RunPodSandbox(b.ctx, p.config, "")
	b.refused("a second sandbox of the same name and attempt", err, codes.OK)
	_, err = b.Runtime.RunPodSandbox(b.ctx, b.podConfig(), "no-such-handler")
	b.refused("an unknown runtime handler", err, codes.OK)
	_, err = b.Runtime.CreateContainer(b.ctx, unknown, b.containerConfig(p, "app", "true"), p.config)
	b.refused("CreateContainer in an unknown sandbox", err, codes.NotFound)
	bad := b.containerConfig(p, "bad", "true")
	bad.Image.Image = "example.invalid/none:1"
	_, err = b.Runtime.CreateContainer(b.ctx, p.id, bad, p.config)
	b.refused("CreateContainer from an absent image", err, codes.NotFound)
	b.refused("StartContainer unknown", b.Runtime.StartContainer(b.ctx, unknown), codes.NotFound)

	c := b.containerConfig(p, "app", "sleep 1000")
	id := b.create(p, c)
	_, err = b.Runtime.CreateContainer(b.ctx, p.id, c, p.config)
	b.refused("a second container of the same name and attempt", err, codes.OK)
	_, _, err = b.Runtime.ExecSync(b.ctx, id, []string{"true"}, time.Second)
	b.refused("ExecSync in a container that was not started", err, codes.OK)
	b.ok("StartContainer", b.Runtime.StartContainer(b.ctx, id))
	b.refused("StartContainer twice", b.Runtime.StartContainer(b.ctx, id), codes.OK)
	b.ok("StopContainer", b.Runtime.StopContainer(b.ctx, id, 0))
	b.refused("StartContainer after its exit", b.Runtime.StartContainer(b.ctx, id), codes.OK)
	_, _, err = b.Runtime.ExecSync(b.ctx, id, []string{"true"}, time.Second)
	b.refused("ExecSync in an exited container", err, codes.OK)
	b.refused("ReopenContainerLog of an exited container", b.Runtime.ReopenContainerLog(b.ctx, id), codes.OK)

	b.ok("StopPodSandbox", b.Runtime.StopPodSandbox(b.ctx, p.id))
	_, err = b.Runtime.CreateContainer(b.ctx, p.id, b.containerConfig(p, "late", "true"), p.config)
	b.refused("CreateContainer in a stopped sandbox", err, codes.OK)
}

func exitCodes(b *box) {
	p := b.run()
	for _, c := range []struct {
		name, script, reason string
		code                 int32
	}{
		{"ok", "exit 0", "Completed", 0},
		{"three", "exit 3", "Error", 3},
		{"last", "true; false", "Error", 1},
		{"end", "echo done", "Completed", 0},
	} {
		st := b.exits(b.start(p, c.name, c.script))
		if st.ExitCode != c.code || st.Reason != c.reason {
			b.Errorf("%q: code %d reason %q, want %d %q", c.script, st.ExitCode, st.Reason, c.code, c.reason)
		}
	}
}

var logLine = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d) (stdout|stderr) [FP] (.*)$`)

func logFiles(b *box) {
	p := b.run()
	b.exits(b.start(p, "app", `echo one; echo two >&2; printf 'no newline'`))
	var got []string
	b.soon("three lines are logged", func() bool {
		got = nil
		for _, l := range b.logLines(p, "app") {
			if m := logLine.FindStringSubmatch(l); m != nil {
				got = append(got, m[3]+" "+m[4])
			}
		}
		return len(got) == 3
	})
	slices.Sort(got)
	if want := []string{"stderr two", "stdout no newline", "stdout one"}; !slices.Equal(got, want) {
		b.Errorf("log %q, want %q", got, want)
	}
	info, err := os.Stat(filepath.Join(p.config.LogDirectory, "app.log"))
	b.ok("stat log", err)
	if info.Mode().Perm() != 0o640 {
		b.Errorf("log file has mode %v", info.Mode().Perm())
	}
}

func logReopened(b *box) {
	p := b.run()
	id := b.start(p, "app", `n=0; while true; do n=$((n+1)); echo "line $n"; sleep 0.02; done`)
	path := filepath.Join(p.config.LogDirectory, "app.log")
	filled := func(path string) func() bool {
		return func() bool {
			raw, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(raw), "line")
		}
	}
	b.soon("something is logged", filled(path))
	b.ok("rename", os.Rename(path, path+".old"))
	b.ok("ReopenContainerLog", b.Runtime.ReopenContainerLog(b.ctx, id))
	b.soon("the new file is written", filled(path))
}

func execSync(b *box) {
	p := b.run()
	id := b.start(p, "app", "sleep 1000")
	out, errOut, err := b.Runtime.ExecSync(b.ctx, id, []string{"/bin/sh", "-c", "echo out; echo err >&2"}, 5*time.Second)
	if err != nil || string(out) != "out\n" || string(errOut) != "err\n" {
		b.Errorf("ExecSync: stdout %q stderr %q error %v", out, errOut, err)
	}
	_, _, err = b.Runtime.ExecSync(b.ctx, id, []string{"/bin/sh", "-c", "exit 7"}, 5*time.Second)
	var code utilexec.CodeExitError
	if !errors.As(err, &code) || code.Code != 7 {
		b.Errorf("ExecSync exit 7: %v", err)
	}
	_, _, err = b.Runtime.ExecSync(b.ctx, id, []string{"no-such-command"}, 5*time.Second)
	b.refused("ExecSync of a command that is not there", err, codes.Unknown)
	if st := b.status(id); st.State != running {
		b.Errorf("container is %s after exec", st.State)
	}
}
