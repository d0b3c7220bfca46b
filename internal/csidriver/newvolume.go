package csidriver

import (
	"math"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	sizeStep    = 4096
	minSize     = 1 << 20
	defaultSize = 1 << 30
	paramType   = "type"
)

// sizeIn is the size to make within the range asked for, at least the smallest.
func sizeIn(r *csipb.CapacityRange, smallest int64) (int64, error) {
	required, limit := r.GetRequiredBytes(), r.GetLimitBytes()
	if required < 0 || limit < 0 || limit > 0 && required > limit {
		return 0, status.Errorf(codes.OutOfRange, "no size is between %d and %d bytes", required, limit)
	}
	size := required
	if size == 0 {
		size = defaultSize
		if limit > 0 {
			size = min(size, limit)
		}
	}
	if size > math.MaxInt64-sizeStep {
		return 0, status.Errorf(codes.OutOfRange, "%d bytes are more than any disk has", size)
	}
	size = max(smallest, (size+sizeStep-1)/sizeStep*sizeStep)
	if limit > 0 && size > limit {
		return 0, status.Errorf(codes.OutOfRange,
			"the limit of %d bytes is less than the %d bytes of the smallest volume "+
				"that holds %d", limit, size, required)
	}
	return size, nil
}

// newRecord is a volume of the parameters and capabilities that are asked for, without its size.
func newRecord(id string, params map[string]string, all []*csipb.VolumeCapability) (*record, error) {
	v := &record{ID: id, Name: id, Created: time.Now()}
	var err error
	if v.Block, err = checkCapabilities(all); err != nil {
		return nil, err
	}
	if v.NewFS, err = fsTypeIn(all); err != nil {
		return nil, err
	}
	if v.Kind, err = kindFor(params, v.Block); err != nil {
		return nil, err
	}
	switch {
	case v.Block:
		v.NewFS = ""
	case v.Kind == kindImage:
		err = fileSystems[v.fsType()].made()
	case v.NewFS == defaultFS: // what a claim's class says that says nothing
		v.NewFS = ""
	case v.NewFS != "":
		err = status.Errorf(codes.InvalidArgument, "a volume of type %s has the file system of the node's disk, %s is "+
			"for volumes of type %s", v.Kind, v.NewFS, kindImage)
	}
	return v, err
}

// smallest is how many bytes a volume has at least.
func (v *record) smallest() int64 {
	if v.Block || v.Kind != kindImage {
		return minSize
	}
	return fileSystems[v.fsType()].smallest
}

// kindFor is how a volume is kept.
func kindFor(params map[string]string, block bool) (string, error) {
	switch t := params[paramType]; {
	case block && t != kindDirectory:
		return kindImage, nil
	case t == kindImage, t == kindDirectory && !block:
		return t, nil
	case t == "":
		if canMakeImages() {
			return kindImage, nil
		}
		return kindDirectory, nil
	default:
		return "", status.Errorf(codes.InvalidArgument,
			"parameter %s is %q, want %q, or %q for volumes with a file system",
			paramType, t, kindImage, kindDirectory)
	}
}
