package crictl

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PodStates are the values of ListOptions.State for Pods.
var PodStates = []string{"ready", "notready"}

// Pods prints sandboxes, newest first.
func Pods(ctx context.Context, rt internalapi.RuntimeService, l ListOptions, out io.Writer) error {
	filter := &runtimeapi.PodSandboxFilter{Id: l.ID, LabelSelector: l.Labels}
	switch strings.ToLower(l.State) {
	case "ready":
		filter.State = &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}
	case "notready":
		filter.State = &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY}
	}
	list, err := rt.ListPodSandbox(ctx, filter)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(s *runtimeapi.PodSandbox) bool {
		return !l.named(s.GetMetadata().GetName(), s.GetMetadata().GetNamespace())
	})
	slices.SortFunc(list, func(a, b *runtimeapi.PodSandbox) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
	list = list[:l.first(len(list))]
	if l.Output == "json" || l.Output == "yaml" {
		return message(out, l.Output, &runtimeapi.ListPodSandboxResponse{Items: list})
	}
	if l.Quiet {
		ids := make([]string, len(list))
		for i, s := range list {
			ids[i] = s.Id
		}
		return lines(out, ids)
	}
	rows := [][]string{{"POD ID", "CREATED", "STATE", "NAME", "NAMESPACE", "ATTEMPT", "RUNTIME"}}
	for _, s := range list {
		m := s.GetMetadata()
		rows = append(rows, []string{
			l.short(s.Id), l.age(s.CreatedAt), podState(s.State), m.GetName(), m.GetNamespace(),
			strconv.Itoa(int(m.GetAttempt())), cmp.Or(s.RuntimeHandler, "(default)"),
		})
	}
	return table(out, rows)
}

func podState(s runtimeapi.PodSandboxState) string {
	if s == runtimeapi.PodSandboxState_SANDBOX_READY {
		return "Ready"
	}
	return "NotReady"
}
