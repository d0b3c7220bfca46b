package critest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	remote "k8s.io/cri-client/pkg"
)

func execTimeout(b *suiteEnv) {
	p := b.run()
	id := b.start(p, "app", "sleep 1000")
	startedAt := time.Now()
	_, _, err := b.Runtime.ExecSync(b.ctx, id, []string{"sleep", "100"}, time.Second)
	if !errors.Is(err, remote.ErrCommandTimedOut) {
		b.Errorf("ExecSync beyond its timeout: %v", err)
	}
	if took := time.Since(startedAt); took < 900*time.Millisecond || took > 8*time.Second {
		b.Errorf("a timeout of 1 s took %s", took)
	}
}

// ready waits until a script has printed that its trap is set.
func (b *suiteEnv) ready(p *pod, name string) {
	b.Helper()
	b.eventually("script is set up", func() bool {
		raw, err := os.ReadFile(filepath.Join(p.config.LogDirectory, name+".log"))
		return err == nil && strings.Contains(string(raw), "ready")
	})
}

func stopWithGrace(b *suiteEnv) {
	p := b.run()
	id := b.start(p, "app", `trap 'echo bye; exit 9' TERM; echo ready; while true; do sleep 0.05; done`)
	b.ready(p, "app")
	startedAt := time.Now()
	b.noError("StopContainer", b.Runtime.StopContainer(b.ctx, id, 20))
	if took := time.Since(startedAt); took > 10*time.Second {
		b.Errorf("stopping took %s though the container ends on TERM", took)
	}
	if st := b.waitExit(id); st.ExitCode != 9 {
		b.Errorf("exit code %d, want 9 of the trap", st.ExitCode)
	}
}

func stopKills(b *suiteEnv) {
	p := b.run()
	id := b.start(p, "app", `trap '' TERM; echo ready; while true; do sleep 0.05; done`)
	b.ready(p, "app")
	startedAt := time.Now()
	b.noError("StopContainer", b.Runtime.StopContainer(b.ctx, id, 1))
	if took := time.Since(startedAt); took < 900*time.Millisecond {
		b.Errorf("killed after %s, before the grace of 1 s was over", took)
	}
	if st := b.waitExit(id); st.ExitCode != 137 {
		b.Errorf("exit code %d, want 137", st.ExitCode)
	}
}

func stopAtOnce(b *suiteEnv) {
	p := b.run()
	id := b.start(p, "app", `trap 'exit 9' TERM; echo ready; while true; do sleep 0.05; done`)
	b.ready(p, "app")
	b.noError("StopContainer", b.Runtime.StopContainer(b.ctx, id, 0))
	if st := b.waitExit(id); st.ExitCode != 137 {
		b.Errorf("exit code %d, want 137", st.ExitCode)
	}
}

func stopSandbox(b *suiteEnv) {
	p := b.run()
	id := b.start(p, "app", "sleep 1000")
	b.noError("StopPodSandbox", b.Runtime.StopPodSandbox(b.ctx, p.id))
	if st := b.waitExit(id); st.ExitCode != 137 {
		b.Errorf("exit code %d, want 137", st.ExitCode)
	}
	b.noError("RemovePodSandbox", b.Runtime.RemovePodSandbox(b.ctx, p.id))
	_, err := b.Runtime.ContainerStatus(b.ctx, id, false)
	b.wantCode("ContainerStatus after its sandbox was removed", err, codes.NotFound)
}

func removeRunning(b *suiteEnv) {
	p := b.run()
	id := b.start(p, "app", "sleep 1000")
	b.noError("RemoveContainer of a running one", b.Runtime.RemoveContainer(b.ctx, id))
	b.start(p, "app2", "sleep 1000")
	b.noError("RemovePodSandbox of a running one", b.Runtime.RemovePodSandbox(b.ctx, p.id))
	list, err := b.Runtime.ListContainers(b.ctx, &runtimeapi.ContainerFilter{PodSandboxId: p.id})
	b.noError("ListContainers", err)
	if len(list) != 0 {
		b.Errorf("%d containers left", len(list))
	}
}

func attempts(b *suiteEnv) {
	p := b.run()
	var ids []string
	for attempt := range uint32(3) {
		c := b.containerConfig(p, "app", "exit 0")
		c.Metadata.Attempt = attempt
		c.LogPath = fmt.Sprintf("app_%d.log", attempt)
		id := b.create(p, c)
		b.noError("StartContainer", b.Runtime.StartContainer(b.ctx, id))
		b.waitExit(id)
		ids = append(ids, id)
	}
	list, err := b.Runtime.ListContainers(b.ctx, &runtimeapi.ContainerFilter{PodSandboxId: p.id})
	b.noError("ListContainers", err)
	got := map[string]uint32{}
	for _, c := range list {
		got[c.Id] = c.Metadata.Attempt
	}
	for attempt, id := range ids {
		if n, ok := got[id]; !ok || n != uint32(attempt) {
			b.Errorf("attempt %d is listed as %d (%v)", attempt, n, ok)
		}
	}
	b.noError("StopPodSandbox", b.Runtime.StopPodSandbox(b.ctx, p.id))
	second := &pod{config: p.config}
	second.config.Metadata.Attempt = 1
	b.runConfig(second)
	sandboxes, err := b.Runtime.ListPodSandbox(b.ctx, &runtimeapi.PodSandboxFilter{LabelSelector: p.config.Labels})
	b.noError("ListPodSandbox", err)
	if len(sandboxes) != 2 {
		b.Errorf("%d sandboxes of two attempts", len(sandboxes))
	}
}

func filters(b *suiteEnv) {
	p := b.run()
	up := b.start(p, "up", "sleep 1000")
	down := b.start(p, "down", "exit 0")
	b.waitExit(down)
	ids := func(f *runtimeapi.ContainerFilter) []string {
		list, err := b.Runtime.ListContainers(b.ctx, f)
		b.noError("ListContainers", err)
		var out []string
		for _, c := range list {
			out = append(out, c.Id)
		}
		slices.Sort(out)
		return out
	}
	both := []string{up, down}
	slices.Sort(both)
	for name, c := range map[string]struct {
		filter *runtimeapi.ContainerFilter
		want   []string
	}{
		"sandbox": {&runtimeapi.ContainerFilter{PodSandboxId: p.id}, both},
		"id":      {&runtimeapi.ContainerFilter{Id: up}, []string{up}},
		"running": {&runtimeapi.ContainerFilter{PodSandboxId: p.id,
			State: &runtimeapi.ContainerStateValue{State: running}}, []string{up}},
		"exited": {&runtimeapi.ContainerFilter{PodSandboxId: p.id,
			State: &runtimeapi.ContainerStateValue{State: exited}}, []string{down}},
		"label": {&runtimeapi.ContainerFilter{PodSandboxId: p.id,
			LabelSelector: map[string]string{"io.kubernetes.container.name": "down"}}, []string{down}},
		"all must hold": {&runtimeapi.ContainerFilter{Id: up, State: &runtimeapi.ContainerStateValue{State: exited}},
			nil},
	} {
		if got := ids(c.filter); !slices.Equal(got, c.want) {
			b.Errorf("filter by %s: %v, want %v", name, got, c.want)
		}
	}
	ready := &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}
	sandboxes, err := b.Runtime.ListPodSandbox(b.ctx, &runtimeapi.PodSandboxFilter{Id: p.id, State: ready})
	b.noError("ListPodSandbox", err)
	if len(sandboxes) != 1 || sandboxes[0].Metadata.Name != p.config.Metadata.Name {
		b.Errorf("sandbox by id and state: %v", sandboxes)
	}
}

func images(b *suiteEnv) {
	st, err := b.Images.ImageStatus(b.ctx, &runtimeapi.ImageSpec{Image: b.Image}, false)
	b.noError("ImageStatus", err)
	if st.Image == nil {
		b.Fatalf("image %s is not there", b.Image)
	}
	none, err := b.Images.ImageStatus(b.ctx, &runtimeapi.ImageSpec{Image: "example.invalid/none:1"}, false)
	b.noError("ImageStatus of an absent image", err)
	if none.Image != nil {
		b.Errorf("an absent image has status %v", none.Image)
	}
	list, err := b.Images.ListImages(b.ctx, nil)
	b.noError("ListImages", err)
	if !slices.ContainsFunc(list, func(i *runtimeapi.Image) bool { return i.Id == st.Image.Id }) {
		b.Errorf("ListImages lacks %s", st.Image.Id)
	}
	fs, err := b.Images.ImageFsInfo(b.ctx)
	b.noError("ImageFsInfo", err)
	if len(fs.ImageFilesystems) == 0 || fs.ImageFilesystems[0].GetFsId().GetMountpoint() == "" {
		b.Errorf("ImageFsInfo names no file system: %v", fs)
	}
}

func mountsAndEnvironment(b *suiteEnv) {
	p := b.run()
	dir := b.TempDir()
	b.noError("write", os.WriteFile(filepath.Join(dir, "in"), []byte("from the host\n"), 0o644))
	c := b.containerConfig(p, "app", `cat /mnt/x/in; echo "$GREETING"; echo back > /mnt/x/out`)
	c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/mnt/x", HostPath: dir}}
	c.Envs = []*runtimeapi.KeyValue{{Key: "GREETING", Value: []byte("hello")}}
	id := b.create(p, c)
	b.noError("StartContainer", b.Runtime.StartContainer(b.ctx, id))
	if st := b.waitExit(id); st.ExitCode != 0 {
		b.Errorf("exit code %d", st.ExitCode)
	}
	b.eventually("output is logged", func() bool {
		text := strings.Join(b.logLines(p, "app"), "\n")
		return strings.Contains(text, "from the host") && strings.Contains(text, "hello")
	})
	out, err := os.ReadFile(filepath.Join(dir, "out"))
	if err != nil || string(out) != "back\n" {
		b.Errorf("written through the mount: %q %v", out, err)
	}
}

func statistics(b *suiteEnv) {
	p := b.run()
	id := b.start(p, "app", "sleep 1000")
	st, err := b.Runtime.ContainerStats(b.ctx, id)
	b.noError("ContainerStats", err)
	if st.GetCpu().GetUsageCoreNanoSeconds() == nil || st.GetMemory().GetWorkingSetBytes() == nil {
		b.Errorf("ContainerStats leaves cpu or memory empty: %v", st)
	}
	list, err := b.Runtime.ListPodSandboxStats(b.ctx, &runtimeapi.PodSandboxStatsFilter{Id: p.id})
	b.noError("ListPodSandboxStats", err)
	if len(list) != 1 {
		b.Errorf("%d stats for one sandbox", len(list))
	}
}

func events(b *suiteEnv) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	ch := b.Events(ctx)
	select {
	case e := <-ch:
		if e != nil {
			b.Errorf("the first event is %v, not the call to relist", e)
		}
	case <-time.After(10 * time.Second):
		b.Fatal("the event stream does not open")
	}
	p := b.run()
	id := b.start(p, "app", "exit 4")
	b.waitExit(id)
	b.noError("RemoveContainer", b.Runtime.RemoveContainer(b.ctx, id))
	want := []runtimeapi.ContainerEventType{
		runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT,
		runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT,
	}
	var got []runtimeapi.ContainerEventType
	limit := time.After(10 * time.Second)
	for len(got) < len(want) {
		select {
		case e := <-ch:
			if e.GetContainerId() != id {
				continue
			}
			got = append(got, e.ContainerEventType)
			if e.PodSandboxStatus.GetMetadata().GetUid() != p.config.Metadata.Uid {
				b.Errorf("event without its sandbox: %v", e)
			}
			if e.ContainerEventType == runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT &&
				(len(e.ContainersStatuses) != 1 || e.ContainersStatuses[0].ExitCode != 4) {
				b.Errorf("stopped event without the exit code: %v", e.ContainersStatuses)
			}
		case <-limit:
			b.Fatalf("events %v, want %v", got, want)
		}
	}
	if !slices.Equal(got, want) {
		b.Errorf("events %v, want %v", got, want)
	}
}
