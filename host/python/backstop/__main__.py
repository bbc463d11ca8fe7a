"""`python -m backstop`"""

from backstop.command import main

main()
