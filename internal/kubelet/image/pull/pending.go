package pull

import (
	"context"
	"errors"
)

func (p *Puller) ensure(context.Context, Request) (string, error) {
	return "", errors.New("pull: being written")
}
