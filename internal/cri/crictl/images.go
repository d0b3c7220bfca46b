package crictl

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	units "github.com/docker/go-units"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const none = "<none>"

// Images prints images, one row per tag; ListOptions.Image selects those that the runtime finds by
// that name.
func Images(ctx context.Context, im internalapi.ImageManagerService, l ListOptions, out io.Writer) error {
	var filter *runtimeapi.ImageFilter
	if l.Image != "" {
		filter = &runtimeapi.ImageFilter{Image: &runtimeapi.ImageSpec{Image: l.Image}}
	}
	list, err := im.ListImages(ctx, filter)
	if err != nil {
		return err
	}
	by := func(i *runtimeapi.Image) string {
		return strings.Join(append(slices.Clone(i.RepoTags), i.RepoDigests...), " ")
	}
	slices.SortFunc(list,
		func(a, b *runtimeapi.Image) int { return cmp.Or(cmp.Compare(by(a), by(b)), cmp.Compare(a.Id, b.Id)) })
	if l.Output == "json" || l.Output == "yaml" {
		return message(out, l.Output, &runtimeapi.ListImagesResponse{Images: list})
	}
	if l.Quiet {
		ids := make([]string, len(list))
		for i, image := range list {
			ids[i] = image.Id
		}
		return lines(out, ids)
	}
	row := func(name, tag, digest, id, size string) []string {
		if l.Digests {
			return []string{name, tag, digest, id, size}
		}
		return []string{name, tag, id, size}
	}
	rows := [][]string{row("IMAGE", "TAG", "DIGEST", "IMAGE ID", "SIZE")}
	for _, i := range list {
		repo, digest := none, none
		if len(i.RepoDigests) > 0 {
			repo, digest, _ = strings.Cut(i.RepoDigests[0], "@")
		}
		for _, t := range tags(i, repo) {
			rows = append(rows, row(t[0], t[1], l.short(digest), l.short(i.Id),
				units.HumanSizeWithPrecision(float64(i.Size), 3)))
		}
	}
	return table(out, rows)
}

// tags returns an image's names and tags; an image without any has the name it was pulled by.
func tags(i *runtimeapi.Image, repo string) [][2]string {
	if len(i.RepoTags) == 0 {
		return [][2]string{{repo, none}}
	}
	var out [][2]string
	for _, t := range i.RepoTags {
		at := strings.LastIndexByte(t, ':')
		if at < 0 {
			out = append(out, [2]string{t, none})
			continue
		}
		out = append(out, [2]string{t[:at], t[at+1:]})
	}
	return out
}
