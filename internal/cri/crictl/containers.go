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

// ContainerStates are the values of ListOptions.State for containers.
var ContainerStates = []string{"created", "running", "exited", "unknown"}

// Containers prints containers, newest first, with the image of the Pod's spec if the runtime
// reports it.
func Containers(ctx context.Context, rt internalapi.RuntimeService, l ListOptions, out io.Writer) error {
	filter := &runtimeapi.ContainerFilter{Id: l.ID, PodSandboxId: l.Pod, LabelSelector: l.Labels}
	if l.State != "" {
		filter.State = &runtimeapi.ContainerStateValue{
			State: runtimeapi.ContainerState(slices.Index(ContainerStates, strings.ToLower(l.State)))}
	}
	list, err := rt.ListContainers(ctx, filter)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(c *runtimeapi.Container) bool {
		return !l.named(c.GetMetadata().GetName(), orUnknown(c.Labels, labelNamespace)) ||
			l.Image != "" && !ofImage(c, l.Image)
	})
	slices.SortFunc(list, func(a, b *runtimeapi.Container) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
	list = list[:l.first(len(list))]
	if l.Output == "json" || l.Output == "yaml" {
		return message(out, l.Output, &runtimeapi.ListContainersResponse{Containers: list})
	}
	if l.Quiet {
		ids := make([]string, len(list))
		for i, c := range list {
			ids[i] = c.Id
		}
		return lines(out, ids)
	}
	rows := [][]string{{"CONTAINER", "IMAGE", "CREATED", "STATE", "NAME", "ATTEMPT", "POD ID", "POD", "NAMESPACE"}}
	for _, c := range list {
		image := c.GetImage().GetImage()
		if strings.HasPrefix(image, "sha256:") {
			image = l.short(image)
		}
		rows = append(rows, []string{
			l.short(c.Id), image, l.age(c.CreatedAt), containerState(c.State), c.GetMetadata().GetName(),
			strconv.Itoa(int(c.GetMetadata().GetAttempt())),
			l.short(c.PodSandboxId), orUnknown(c.Labels, labelPodName), orUnknown(c.Labels, labelNamespace),
		})
	}
	return table(out, rows)
}

// ofImage compares image with all names that the runtime gives the container's image.
func ofImage(c *runtimeapi.Container, image string) bool {
	for _, have := range []string{c.GetImage().GetImage(), c.GetImage().GetUserSpecifiedImage(), c.GetImageRef(),
		c.GetImageId()} {
		if have != "" && (have == image || strings.HasPrefix(strings.TrimPrefix(have, "sha256:"), image)) {
			return true
		}
	}
	return false
}

func containerState(s runtimeapi.ContainerState) string {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return "Created"
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return "Running"
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return "Exited"
	}
	return "Unknown"
}
