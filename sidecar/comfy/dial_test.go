package comfy_test

import (
	"context"
	"net"
)

// stuck dials into nowhere.
func stuck(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
