package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageService is internalapi.ImageManagerService over gRPC.
type imageService struct {
	api     runtimeapi.ImageServiceClient
	timeout time.Duration
	log     *callLog
}

var _ internalapi.ImageManagerService = (*imageService)(nil)

// ListImages lists the images that match filter; nil matches all.
func (s *imageService) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r, err := s.api.ListImages(ctx, &runtimeapi.ListImagesRequest{Filter: filter})
	return r.GetImages(), err
}

// ImageStatus returns the image; a response without image means that it does not exist.
func (s *imageService) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec,
	verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r, err := s.api.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: image, Verbose: verbose})
	if err != nil {
		return nil, err
	}
	if r.Image != nil && (r.Image.Id == "" || r.Image.Size == 0) {
		return nil, fmt.Errorf("the runtime's ImageStatus of %q sets no id or no size", image.GetImage())
	}
	return r, nil
}

// PullImage pulls and returns the reference for CreateContainer. It has no timeout of its own. An
// error of code Unknown is returned without its code, which carries no information.
func (s *imageService) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig,
	sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	req := &runtimeapi.PullImageRequest{Image: image, Auth: auth, SandboxConfig: sandbox}
	var r *runtimeapi.PullImageResponse
	err := s.log.call("PullImage", sandboxRef(sandbox.GetMetadata()), image.GetImage(), func() (err error) {
		if r, err = s.api.PullImage(ctx, req); err == nil && r.ImageRef == "" {
			err = fmt.Errorf("the runtime's PullImage of %q sets no image_ref", image.GetImage())
		}
		return err
	})
	if st, ok := status.FromError(err); err != nil && ok && st.Code() == codes.Unknown {
		return "", errors.New(st.Message())
	}
	return r.GetImageRef(), err
}

// RemoveImage removes the image with all its tags; an unknown one is not an error.
func (s *imageService) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.log.call("RemoveImage", imageRef(image), image.GetImage(), func() error {
		_, err := s.api.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: image})
		return err
	})
}

// ImageFsInfo returns the use of the file systems images and writable layers are on.
func (s *imageService) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.api.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
}

// Close does nothing; Client.Close closes.
func (*imageService) Close(context.Context) error { return nil }
