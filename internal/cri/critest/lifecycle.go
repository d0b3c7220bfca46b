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

func versionAndStatus(b *suiteEnv) {
	v, err := b.Runtime.Version(b.ctx, "v1")
	b.noError("Version", err)
	if v.RuntimeName == "" || v.RuntimeVersion == "" || v.RuntimeApiVersion != "v1" {
		b.Errorf("Version leaves something empty: %v", v)
	}
	st, err := b.Runtime.Status(b.ctx, false)
	b.noError("Status", err)
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

func lifecycle(b *suiteEnv) {
	p := b.run()
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(p.id) {
		b.Errorf("sandbox id %q is not 64 hex digits", p.id)
	}
	sb, err := b.Runtime.PodSandboxStatus(b.ctx, p.id, false)
	b.noError("PodSandboxStatus", err)
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
	b.noError("StartContainer", b.Runtime.StartContainer(b.ctx, id))
	st := b.status(id)
	if st.State != running || st.StartedAt < st.CreatedAt || st.FinishedAt != 0 || st.Image.GetImage() == "" ||
		st.ImageRef == "" {
		b.Errorf("after StartContainer: %v", st)
	}
	if want := filepath.Join(p.config.LogDirectory, "app.log"); st.LogPath != want {
		b.Errorf("log path %q, want %q", st.LogPath, want)
	}
	b.noError("StopContainer", b.Runtime.StopContainer(b.ctx, id, 1))
	st = b.status(id)
	if st.State != exited || st.FinishedAt < st.StartedAt || st.ExitCode == 0 || st.Reason != "Error" {
		b.Errorf("after StopContainer: %v", st)
	}
	b.noError("RemoveContainer", b.Runtime.RemoveContainer(b.ctx, id))
	_, err = b.Runtime.ContainerStatus(b.ctx, id, false)
	b.wantCode("ContainerStatus of a removed container", err, codes.NotFound)
	b.noError("StopPodSandbox", b.Runtime.StopPodSandbox(b.ctx, p.id))
	sb, err = b.Runtime.PodSandboxStatus(b.ctx, p.id, false)
	b.noError("PodSandboxStatus", err)
	if sb.Status.State != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		b.Errorf("sandbox state %s after StopPodSandbox", sb.Status.State)
	}
	b.noError("RemovePodSandbox", b.Runtime.RemovePodSandbox(b.ctx, p.id))
	_, err = b.Runtime.PodSandboxStatus(b.ctx, p.id, false)
	b.wantCode("PodSandboxStatus of a removed sandbox", err, codes.NotFound)
}

const unknown = "0123456789012345678901234567890123456789012345678901234567890123"

func idempotence(b *suiteEnv) {
	b.noError("StopContainer unknown", b.Runtime.StopContainer(b.ctx, unknown, 0))
	b.noError("RemoveContainer unknown", b.Runtime.RemoveContainer(b.ctx, unknown))
	b.noError("StopPodSandbox unknown", b.Runtime.StopPodSandbox(b.ctx, unknown))
	b.noError("RemovePodSandbox unknown", b.Runtime.RemovePodSandbox(b.ctx, unknown))
	b.noError("RemoveImage unknown",
		b.Images.RemoveImage(b.ctx, &runtimeapi.ImageSpec{Image: "example.invalid/none:1"}))
	p := b.run()
	id := b.start(p, "app", "sleep 1000")
	for range 2 {
		b.noError("StopContainer again", b.Runtime.StopContainer(b.ctx, id, 0))
	}
	for range 2 {
		b.noError("RemoveContainer again", b.Runtime.RemoveContainer(b.ctx, id))
	}
	for range 2 {
		b.noError("StopPodSandbox again", b.Runtime.StopPodSandbox(b.ctx, p.id))
	}
	for range 2 {
		b.noError("RemovePodSandbox again", b.Runtime.RemovePodSandbox(b.ctx, p.id))
	}
}

func illegalOrders(b *suiteEnv) {
	p := b.run()
	_, err := b.Runtime.RunPodSandbox(b.ctx, p.config, "")
	b.wantCode("a second sandbox of the same name and attempt", err, codes.OK)
	_, err = b.Runtime.RunPodSandbox(b.ctx, b.podConfig(), "no-such-handler")
	b.wantCode("an unknown runtime handler", err, codes.OK)
	_, err = b.Runtime.CreateContainer(b.ctx, unknown, b.containerConfig(p, "app", "true"), p.config)
	b.wantCode("CreateContainer in an unknown sandbox", err, codes.NotFound)
	bad := b.containerConfig(p, "bad", "true")
	bad.Image.Image = "example.invalid/none:1"
	_, err = b.Runtime.CreateContainer(b.ctx, p.id, bad, p.config)
	b.wantCode("CreateContainer from an absent image", err, codes.NotFound)
	b.wantCode("StartContainer unknown", b.Runtime.StartContainer(b.ctx, unknown), codes.NotFound)

	c := b.containerConfig(p, "app", "sleep 1000")
	id := b.create(p, c)
	_, err = b.Runtime.CreateContainer(b.ctx, p.id, c, p.config)
	b.wantCode("a second container of the same name and attempt", err, codes.OK)
	_, _, err = b.Runtime.ExecSync(b.ctx, id, []string{"true"}, time.Second)
	b.wantCode("ExecSync in a container that was not started", err, codes.OK)
	b.noError("StartContainer", b.Runtime.StartContainer(b.ctx, id))
	b.wantCode("StartContainer twice", b.Runtime.StartContainer(b.ctx, id), codes.OK)
	b.noError("StopContainer", b.Runtime.StopContainer(b.ctx, id, 0))
	b.wantCode("StartContainer after its exit", b.Runtime.StartContainer(b.ctx, id), codes.OK)
	_, _, err = b.Runtime.ExecSync(b.ctx, id, []string{"true"}, time.Second)
	b.wantCode("ExecSync in an exited container", err, codes.OK)
	b.wantCode("ReopenContainerLog of an exited container", b.Runtime.ReopenContainerLog(b.ctx, id), codes.OK)

	b.noError("StopPodSandbox", b.Runtime.StopPodSandbox(b.ctx, p.id))
	_, err = b.Runtime.CreateContainer(b.ctx, p.id, b.containerConfig(p, "late", "true"), p.config)
	b.wantCode("CreateContainer in a stopped sandbox", err, codes.OK)
}

func exitCodes(b *suiteEnv) {
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
		st := b.waitExit(b.start(p, c.name, c.script))
		if st.ExitCode != c.code || st.Reason != c.reason {
			b.Errorf("%q: code %d reason %q, want %d %q", c.script, st.ExitCode, st.Reason, c.code, c.reason)
		}
	}
}

var logLine = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d) (stdout|stderr) [FP] (.*)$`)

func logFiles(b *suiteEnv) {
	p := b.run()
	b.waitExit(b.start(p, "app", `echo one; echo two >&2; printf 'no newline'`))
	var got []string
	b.eventually("three lines are logged", func() bool {
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
	b.noError("stat log", err)
	if info.Mode().Perm() != 0o640 {
		b.Errorf("log file has mode %v", info.Mode().Perm())
	}
}

func logReopened(b *suiteEnv) {
	p := b.run()
	id := b.start(p, "app", `n=0; while true; do n=$((n+1)); echo "line $n"; sleep 0.02; done`)
	path := filepath.Join(p.config.LogDirectory, "app.log")
	filled := func(path string) func() bool {
		return func() bool {
			raw, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(raw), "line")
		}
	}
	b.eventually("something is logged", filled(path))
	b.noError("rename", os.Rename(path, path+".old"))
	b.noError("ReopenContainerLog", b.Runtime.ReopenContainerLog(b.ctx, id))
	b.eventually("the new file is written", filled(path))
}

func execSync(b *suiteEnv) {
	p := b.run()
	id := b.start(p, "app", "sleep 1000")
	out, errOut, err := b.Runtime.ExecSync(b.ctx, id, []string{"/bin/sh", "-c", "echo out; echo err >&2"},
		5*time.Second)
	if err != nil || string(out) != "out\n" || string(errOut) != "err\n" {
		b.Errorf("ExecSync: stdout %q stderr %q error %v", out, errOut, err)
	}
	_, _, err = b.Runtime.ExecSync(b.ctx, id, []string{"/bin/sh", "-c", "exit 7"}, 5*time.Second)
	var code utilexec.CodeExitError
	if !errors.As(err, &code) || code.Code != 7 {
		b.Errorf("ExecSync exit 7: %v", err)
	}
	_, _, err = b.Runtime.ExecSync(b.ctx, id, []string{"no-such-command"}, 5*time.Second)
	b.wantCode("ExecSync of a command that is not there", err, codes.Unknown)
	if st := b.status(id); st.State != running {
		b.Errorf("container is %s after exec", st.State)
	}
}
