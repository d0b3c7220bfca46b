package crictl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	units "github.com/docker/go-units"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Stats prints resource use of running containers; CPU use is measured between two responses
// ListOptions.Sample apart.
func Stats(ctx context.Context, rt internalapi.RuntimeService, l ListOptions, out io.Writer) error {
	filter := &runtimeapi.ContainerStatsFilter{Id: l.ID, PodSandboxId: l.Pod, LabelSelector: l.Labels}
	before, err := rt.ListContainerStats(ctx, filter)
	if err != nil {
		return err
	}
	if l.Output == "json" || l.Output == "yaml" {
		return message(out, l.Output, &runtimeapi.ListContainerStatsResponse{Stats: before})
	}
	select {
	case <-time.After(l.Sample):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := rt.ListContainerStats(ctx, filter)
	if err != nil {
		return err
	}
	return table(out, usage(l, before, after))
}

// usage returns a row per running container that is in both responses.
func usage(l ListOptions, before, after []*runtimeapi.ContainerStats) [][]string {
	old := map[string]*runtimeapi.ContainerStats{}
	for _, s := range before {
		old[s.GetAttributes().GetId()] = s
	}
	slices.SortFunc(after, func(a, b *runtimeapi.ContainerStats) int {
		return cmp.Compare(a.GetAttributes().GetId(), b.GetAttributes().GetId())
	})
	rows := [][]string{{"CONTAINER", "NAME", "CPU %", "MEM", "DISK", "INODES", "SWAP"}}
	for _, s := range after {
		a, was := s.GetAttributes(), old[s.GetAttributes().GetId()]
		used, memory := s.GetCpu().GetUsageCoreNanoSeconds().GetValue(), s.GetMemory().GetWorkingSetBytes().GetValue()
		if was == nil || used == 0 && memory == 0 {
			continue
		}
		share := 0.0
		if took := s.GetCpu().GetTimestamp() - was.GetCpu().GetTimestamp(); took > 0 {
			share = float64(used-was.GetCpu().GetUsageCoreNanoSeconds().GetValue()) / float64(took) * 100
		}
		layer := s.GetWritableLayer()
		rows = append(rows, []string{
			l.short(a.GetId()), a.GetMetadata().GetName(), fmt.Sprintf("%.2f", share), units.HumanSize(float64(memory)),
			units.HumanSize(float64(layer.GetUsedBytes().GetValue())),
			strconv.FormatUint(layer.GetInodesUsed().GetValue(), 10),
			units.HumanSize(float64(s.GetSwap().GetSwapUsageBytes().GetValue())),
		})
	}
	return rows
}
